"""Tool calls that failed, that named an unknown tool, or that brought the same result again."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator

from agenteval_collector.findings.observing import Observed, Subject, of_call, quote, written
from agenteval_collector.problems import shape_of
from otel_agenteval.detectors.tool_names import receiver_in
from otel_agenteval.model import Json, ToolCall

_SAYS_NOTHING = "error"
"""The text that readers give an error without words."""

MAX_OFFERED = 20
"""Tools that are listed as evidence that another one is unknown."""


def failed(subject: Subject) -> Iterator[Observed]:
    """Find calls whose span ended in an error, or whose result tells of one: by a field (`error`, `success`, `ok`,
    `isError`, `status`), or as a text that begins like an error ("Error: no such order").

    Other words in a result mean nothing here, and a call whose outcome was not recorded neither worked nor failed.
    """
    for turn, call in subject.outcomes():
        if call.error is not None:
            words = call.error if call.error != _SAYS_NOTHING or call.result is None else written(call.result)
            told_by = "result" if call.is_error_read else "status"
            yield of_call(turn, call, f"failed: {quote(words)}", told_by=told_by, shape=shape_of(words))


def unknown(subject: Subject) -> Iterator[Observed]:
    """Find calls of tools that are not among those the model was offered, where the call recorded what was offered.

    Tools that hand the conversation over belong to a framework, and are not always listed.
    """
    if subject.trace.partial:
        return
    for turn, call in subject.calls():
        if call.is_offered is False and receiver_in(call.name) is None:
            offered: list[Json] = [quote(tool.name) for tool in subject.trace.available_tools[:MAX_OFFERED]]
            yield of_call(turn, call, "was called, but no tool of this name was offered", offered=offered)


def repeated(subject: Subject) -> Iterator[Observed]:
    """Find calls with the same arguments and the same result, or the same error, as an earlier call of the tool in the
    trace.

    A call whose arguments or outcome were not recorded is not compared.
    """
    results: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for turn, call in subject.calls():
        outcome = call.error if call.result is None else written(call.result)
        if call.arguments is None or outcome is None:
            continue
        before, result = results[_same(call)], _digest(outcome)
        if result in before:
            same = "error" if call.error is not None else "result"
            arguments = quote(written(call.arguments))
            yield of_call(turn, call, f"was called with {arguments} before, and gave the same {same} again")
        before.add(result)


def _same(call: ToolCall) -> bytes:
    return _digest(f"{call.name} {written(call.arguments)}")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
