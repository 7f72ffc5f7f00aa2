"""The adapter of the judge to the OpenAI protocol. It sends a request and returns the reply."""
