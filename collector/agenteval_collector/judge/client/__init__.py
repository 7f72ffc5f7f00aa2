"""Adapter of the judge to the OpenAI protocol: a request goes in, a reply comes out."""
