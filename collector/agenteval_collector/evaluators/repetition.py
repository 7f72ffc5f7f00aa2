"""Which tool calls of a trace were in vain.

Two calls are the same where tool and arguments are. A call is *repeated* where the same call before it succeeded and
gave the same result; a call whose result differs (a poll, a read after a write) is not. It is *retried in vain* where
the same call before it failed, and it fails too. Calls whose arguments, or results, were not recorded are never
called repeated.
"""

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum

from otel_agenteval.model import ToolCall


class Vain(StrEnum):
    """Why a call was in vain."""

    REPEATED = "repeats a call that gave the same result"
    RETRIED = "fails like the same call before it"


def calls_in_vain(calls: Sequence[ToolCall]) -> Iterator[tuple[int, Vain]]:
    """The positions of the calls that were in vain, in order; linear in the size of the calls."""
    last: dict[tuple[str, str], ToolCall] = {}
    for index, call in enumerate(calls):
        if call.arguments is None:
            continue
        same = (call.name, json.dumps(call.arguments, sort_keys=True))
        before = last.get(same)
        last[same] = call
        if before is None:
            continue
        if before.error is not None and call.error is not None:
            yield index, Vain.RETRIED
        elif before.error is None and before.result is not None and before.result == call.result:
            yield index, Vain.REPEATED
