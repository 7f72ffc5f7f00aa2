"""The listener for the collector's verdicts on this process's sessions, by a stream that is opened again when it
breaks."""

import json
import logging
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import grpc
from google.protobuf.message import DecodeError

from otel_agenteval.config import Destination
from otel_agenteval.finding import Finding, Mode, Severity
from otel_agenteval.model import Json
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.sending.background import OwnThread, backoff, forks_wait, suppressing_instrumentation
from otel_agenteval.sending.transport import open_channel
from otel_agenteval.verdict import Verdict, verdict_of

WATCH_METHOD: Final = "/otel_agenteval.proto.v1.EvaluationService/Watch"

MAX_TEXT: Final = 10_000
"""Characters of a verdict's reason that are kept. Longer metadata is left out."""
MAX_EXPLANATION: Final = 500
"""Characters of a judge's explanation that are kept."""

_TRACE_ID: Final = re.compile("[0-9a-f]{32}")
_STEADY: Final = 10.0
"""Seconds that a stream must have lasted for the back-off to begin anew."""
_OVERLAP: Final = 10.0
"""Seconds before the break of a stream that the next one repeats, because events may have been on their way."""

_logger = logging.getLogger("otel_agenteval")


@dataclass(eq=False)
class Listener:
    """Gives each verdict of the collector to `publish`. Owns a thread and a connection, whose failures are only
    logged."""

    destination: Callable[[], Destination]
    process_id: str
    publish: Callable[[Verdict], None]
    monotonic: Callable[[], float]

    def __post_init__(self) -> None:
        self._thread = OwnThread("agenteval-listener", self._run)
        self._channel: grpc.Channel | None = None
        self._interrupted = False
        self._heard_until = 0.0

    def start(self) -> None:
        """Start the thread, unless it runs or was stopped."""
        if not self._thread.is_stopping:
            self._thread.start()

    def stop(self) -> None:
        """End the stream and the thread."""
        # Set before the interruption, so that the stream that ends by it is not opened again.
        self._thread.is_stopping = True
        self._interrupt()
        self._thread.stop()

    def _interrupt(self) -> None:
        self._interrupted = True
        if (channel := self._channel) is not None:
            channel.close()

    def _run(self) -> None:
        attempt = 0
        self._heard_until = self.monotonic()
        with suppressing_instrumentation():
            while not self._thread.is_stopping:
                opened = self.monotonic()
                self._interrupted = False
                with forks_wait(self._interrupt):
                    problem = self._listen()
                if self._interrupted:
                    continue
                attempt = 0 if self.monotonic() - opened > _STEADY else attempt + 1
                _logger.debug("no verdicts from the collector for a while: %s", problem)
                self._thread.wait(backoff(attempt))

    def _listen(self) -> str:
        """Open a stream and take its verdicts until it ends. Return why it ended."""
        destination = self.destination()
        is_heard = False
        try:
            self._channel = open_channel(destination)
        except OSError as error:
            return str(error)
        try:
            # Without a deserializer: gRPC would end the stream for one message that cannot be decoded.
            watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(WATCH_METHOD, None, None)
            missed = self.monotonic() - self._heard_until
            request = pb.WatchRequest(process_id=self.process_id, missed_seconds=missed).SerializeToString()
            if self._interrupted or self._thread.is_stopping:
                return "interrupted"
            stream = watch(request, metadata=destination.headers)
            # The collector sends it once we are registered: from here on, no event is missed.
            stream.initial_metadata()
            is_heard = stream.is_active()
            for message in stream:
                if (verdict := _verdict(message)) is not None:
                    self.publish(verdict)
            return "the collector ended the stream"
        except (grpc.RpcError, ValueError) as error:
            # gRPC raises ValueError for a channel that `_interrupt` has closed.
            return str(error)
        finally:
            self._channel.close()
            if is_heard:
                self._heard_until = max(self._heard_until, self.monotonic() - _OVERLAP)


def _verdict(message: bytes) -> Verdict | None:
    """Return the verdict in a WatchResponse; None if it holds none, or none that this client understands."""
    try:
        response = pb.WatchResponse.FromString(message)
    except DecodeError as error:
        _logger.debug("not a WatchResponse: %s", error)
        return None
    verdict = _on_finding(response.finding) if response.HasField("finding") else _judged_alarm(response.outcome)
    if verdict is not None and not _TRACE_ID.fullmatch(verdict.trace_id):
        _logger.debug("a verdict on %.40r, which is no trace's id", verdict.trace_id)
        return None
    return verdict


def _judged_alarm(outcome: pb.Outcome) -> Verdict | None:
    """Return the verdict on a judge's score of a trace that is below its threshold; None for any other outcome."""
    is_judged = outcome.method == "llm" and outcome.subject == "trace"
    if not is_judged or not outcome.HasField("score") or not outcome.score < outcome.threshold:
        return None
    return Verdict(
        name=outcome.name,
        kind=None,
        mode=Mode.OBSERVE,
        session_id=outcome.session_id,
        trace_id=outcome.trace_id,
        span_id=outcome.span_id,
        reason=f"{outcome.name} is {outcome.score:.2f}, below its threshold of {outcome.threshold:.2f}: "
        + textwrap.shorten(outcome.reason, MAX_EXPLANATION, placeholder=" …"),
        metadata={"score": outcome.score, "threshold": outcome.threshold},
    )


def _on_finding(message: pb.Finding) -> Verdict | None:
    # A newer collector may know modes and severities that this client does not.
    if message.mode not in tuple(Mode) or message.severity not in tuple(Severity):
        return None
    finding = Finding(
        kind=message.kind,
        severity=Severity(message.severity),
        mode=Mode(message.mode),
        session_id=message.session_id,
        trace_id=message.trace_id,
        span_id=message.span_id or None,
        agent=message.agent or None,
        tool=message.tool or None,
        reason=message.reason[:MAX_TEXT],
        metadata=_metadata(message.metadata_json),
    )
    return verdict_of(finding)


def _metadata(text: bytes) -> dict[str, Json]:
    try:
        metadata = json.loads(text) if 0 < len(text) <= MAX_TEXT else {}
    except (ValueError, RecursionError):
        return {}
    return metadata if isinstance(metadata, dict) else {}
