"""Whether the agent did what it planned, for steps that say which tool they need.

A step says so where it shares a word with the name of an available tool ("Check the weather" and get_weather). It was
taken where more than half of its words are in the name and arguments of one of the turn's calls. A turn's last plan
counts; verbs that fit any tool ("check", "get") do not. Other steps ("Decide what is best") and plans in prose take a
judge.
"""

import json

from agenteval_collector.evaluators.plans import content_words, no_plan, share, stated_plan
from agenteval_collector.evaluators.port import EvaluationContext
from agenteval_collector.evaluators.reasons import MAX_NAMED, not_applicable, quote
from otel_agenteval.model import ToolCall
from otel_agenteval.outcome import Method, Outcome, Score

TAKEN = 0.5
"""Share of a step's words that the call has more of."""
MAX_CALLS = 500
"""Calls of a turn that steps are looked for in."""
MAX_ARGUMENTS = 2_000
"""Characters of a call's arguments that are looked at."""

_ANY_TOOL = content_words("get set run call use tool check find look fetch list do make create update search")


class PlanAdherence:
    """Steps that were taken / steps that say which tool they need, over the plans of all turns."""

    name = "plan_adherence"
    version = "embedded-1"
    method = Method.HEURISTIC

    def evaluate(self, context: EvaluationContext) -> Outcome:
        trace = context.trace
        plans = [(turn, plan) for turn in trace.turns if (plan := stated_plan(turn))]
        if not plans:
            return no_plan(trace)
        tools = content_words(*(tool.name[:200] for tool in trace.available_tools[:MAX_CALLS])) - _ANY_TOOL
        checkable: list[str] = []
        missed: list[str] = []
        for turn, plan in plans:
            calls = [_words(call) for call in turn.tool_calls[:MAX_CALLS]]
            for step in plan:
                words = content_words(step) - _ANY_TOOL
                if words & tools:
                    checkable.append(step)
                    if share(words, calls) <= TAKEN:
                        missed.append(step)
        if not checkable:
            return not_applicable("no step of the plan names a tool; takes a judge")
        named = "; ".join(f'"{quote(step)}"' for step in missed[:MAX_NAMED])
        return Score(
            value=1 - len(missed) / len(checkable),
            reason=f"not taken: {named}" if missed else "every step that names a tool was taken",
            metadata={"steps": sum(len(plan) for _, plan in plans), "checked": len(checkable), "missed": len(missed)},
        )


def _words(call: ToolCall) -> frozenset[str]:
    return content_words(call.name[:200], json.dumps(call.arguments, ensure_ascii=False)[:MAX_ARGUMENTS])
