"""Clients of a judge: the port, and an adapter for the OpenAI protocol. In goes a request, out comes a reply."""
