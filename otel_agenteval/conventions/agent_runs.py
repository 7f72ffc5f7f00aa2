"""Attribute each step to a run of its agent: the nearest one around it that is not the same run recorded again."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from otel_agenteval.conventions.facts import Role
from otel_agenteval.conventions.tree import Node
from otel_agenteval.model import AgentRun


class _Inside(NamedTuple):
    """The owner of the steps directly inside a span: its run, its agent's or span's name, and whether a tool was
    called."""

    run: Node | None = None
    label: str | None = None
    in_tool: bool = False


def tell_runs_apart(roots: Sequence[Node]) -> None:
    """Set the `run` of every node below a run."""
    inside: dict[str, _Inside] = {}
    runs: list[tuple[str, Node]] = []
    called: set[str] = set()
    nodes = [node for root in roots for node in root.below()]
    for node in nodes:
        outer = inside[node.parent.id] if node.parent else _Inside()
        inside[node.id] = outer
        if node.role is Role.TOOL:
            inside[node.id] = outer._replace(in_tool=True)
        elif node.role is Role.AGENT:
            label = node.facts.agent or node.span.name
            if label != outer.label or outer.in_tool:
                inside[node.id] = _Inside(node, label)
                runs.append((label, node))
                if outer.in_tool or (outer.run and outer.run.facts.agent):
                    called.add(node.id)
    parallel = _parallel(runs)
    by_span = {node.id: AgentRun(node.id, node.id in called, node.id in parallel) for _, node in runs}
    for node in nodes:
        run = inside[node.parent.id].run if node.parent else None
        node.run = by_span[run.id] if run else None


def _parallel(runs: Sequence[tuple[str, Node]]) -> set[str]:
    """Return the ids of runs beside which another one with the same label goes on."""
    found: set[str] = set()
    in_order = sorted(runs, key=lambda run: (run[0], run[1].span.started_at))
    for _, of_agent in groupby(in_order, key=lambda run: run[0]):
        before: Node | None = None
        for _, node in of_agent:
            if before is not None and node.span.started_at < before.span.ended_at:
                found |= {before.id, node.id}
            if before is None or node.span.ended_at > before.span.ended_at:
                before = node
    return found
