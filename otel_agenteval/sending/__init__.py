"""Spans on their way out: buffered, encoded, and sent to the collector by one thread."""
