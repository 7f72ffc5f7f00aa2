"""Sending: ended spans go in; OTLP requests to the collector come out, by one thread."""
