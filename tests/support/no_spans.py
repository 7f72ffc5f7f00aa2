"""Queries for spans where none is kept, and where no model has a price."""

from agenteval_collector.serve.api.spans import SpanQueries


def forgotten(_trace_id: str) -> None:
    return None


def unpriced(_model: str | None, _input: int, _output: int) -> None:
    return None


NO_SPANS = SpanQueries(forgotten, unpriced)
