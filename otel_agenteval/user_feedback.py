"""Feedback of the end user on an answer or a conversation."""

import re
from typing import Final, SupportsFloat

from otel_agenteval.context import SpanIdentity, identity_in, reportable, required_in_report
from otel_agenteval.internal.text import storable
from otel_agenteval.loops.verdicts import current_ids
from otel_agenteval.processor import report_everywhere
from otel_agenteval.proto.v1.evaluation_pb2 import ReportFeedbackRequest
from otel_agenteval.sending.transport import FEEDBACK_METHOD

MAX_NOTE: Final = 10_000
"""The most characters of a note that the collector takes."""
_TRACE_ID: Final = re.compile("[0-9a-f]{32}")


def feedback(
    value: bool | float,
    name: str = "user_feedback",
    trace_id: str | None = None,
    session_id: str | None = None,
    note: str | None = None,
) -> None:
    """Tell the collector what the end user said about an answer or a conversation, without waiting.

    `value` is a thumb (True is up), or stars as a number in [0, 1]. `note` has the user's words, cut to MAX_NOTE
    characters. The feedback is about `trace_id`, else about `session_id`, else about the current trace, else about the
    current session. Its author is the user of the current session. The trace need not have arrived yet.

    Raises ValueError for a value out of range, an invalid id, or if the feedback is about nothing.
    """
    if not isinstance(value, SupportsFloat) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"feedback is {value!r}: give True, False, or a number in [0, 1]")
    if trace_id is not None and not (isinstance(trace_id, str) and _TRACE_ID.fullmatch(trace_id)):
        raise ValueError(f"trace_id is {trace_id!r}: give 32 lower-case hexadecimal digits")
    current = identity_in(None) or SpanIdentity()
    if trace_id is None and session_id is None:
        session_id, trace_id = current_ids()
        if trace_id is None and session_id is None:
            raise ValueError("feedback is about nothing: give trace_id= or session_id=, or call it inside of one")
    if trace_id is None:
        session_id = required_in_report("session_id", session_id)
    request = ReportFeedbackRequest(
        trace_id=trace_id or "",
        # The trace decides: the session is not sent beside it.
        session_id=(session_id or "") if trace_id is None else "",
        name=required_in_report("name", name),
        value=float(value),
        author=reportable(current.user_id),
        note=storable(note or "")[:MAX_NOTE],
    )
    report_everywhere(f"feedback {name!r}", FEEDBACK_METHOD, request.SerializeToString())
