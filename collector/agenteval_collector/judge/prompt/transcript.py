"""A trace as a judge reads it: a compact, ordered transcript under a budget of tokens."""

from collections.abc import Sequence
from typing import Final

from agenteval_collector.judge.prompt.encoding import encode, tokens
from agenteval_collector.judge.prompt.entries import USER, entries
from agenteval_collector.judge.prompt.fitting import Redact, fit
from otel_agenteval.model import Json, Trace

GUIDE: Final = """\
The transcript lists what happened, in order ("n"), with the number of the turn where there are several:
- instructions: what the agent was told by its developer
- user: what the user said (null: it was not recorded)
- reasoning, plan, reply: what the agent thought, what it said it would do, what it said on the way
- tool_call: a call of a tool with its arguments (null: not recorded), its result, and its error where it failed
- model_error: a call of the agent's model that failed
- answer: what the agent answered; no_answer: that it gave none, with the error where there was one
- left_out: entries that are not shown. Long texts have their middle left out, as they say themselves.
Where there is "earlier", it lists in the same way what came before in the session (message: a text of which is not \
known who said it). Read it to understand what the user refers to, agreed to or asked for before. Judge only the \
transcript, nothing that was said or done in "earlier"."""

_PARTIAL: Final[Json] = {"kind": "left_out", "text": "[... parts were lost before they were recorded here ...]"}


def told(transcript: list[Json], earlier: Sequence[Json]) -> dict[str, Json]:
    """Make the data of a question from a transcript and what came before it, if anything did."""
    return {"earlier": list(earlier), "transcript": transcript} if earlier else {"transcript": transcript}


def transcript(trace: Trace, budget: int, redact: Redact) -> list[Json]:
    """Write the transcript of `trace` in at most `budget` tokens (300 or more), everything in it redacted.

    What the user said first and the last answer are always there, shortened where they are long.
    """
    found = entries(trace)
    head = next((index + 1 for index, entry in enumerate(found) if entry.kind == USER), 0)
    if not trace.partial:
        return fit(found, budget, redact, head=head, tail=1).items
    room = budget - tokens(encode([_PARTIAL]))
    return [_PARTIAL, *fit(found, room, redact, head=head, tail=1).items]
