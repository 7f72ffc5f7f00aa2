"""Sending, by one thread. In: ended spans. Out: OTLP requests to the collector."""
