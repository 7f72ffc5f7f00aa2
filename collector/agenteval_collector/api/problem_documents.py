"""The JSON documents of problems."""

from typing import Literal

from typing_extensions import TypedDict


class ProblemDocument(TypedDict):
    """A failure that recurs, with what the traces add up to in which it occurred.

    `kind` is that of its findings, or the name of the evaluator that fails its traces. `trend` counts traces by hour,
    the present hour last. `examples` are trace ids, the newest first.
    """

    problem_id: str
    agent: str | None
    title: str
    kind: str
    severity: Literal["error", "warning"]
    tool: str | None
    state: Literal["new", "ongoing", "resolved", "regressed", "muted"]
    first_seen: str
    last_seen: str
    traces: int
    sessions: int
    versions: dict[str, int]
    first_version: str | None
    usd: float
    seconds: float
    trend: list[int]
    examples: list[str]
    resolved_at: str | None
    resolved_by: str | None
    muted_until: str | None
    muted_by: str | None
