"""Runs of a task, and the reports of their outcomes. Spans that start inside a run belong to it."""

import time
from contextvars import Token
from typing import SupportsFloat

from opentelemetry import context as context_api
from opentelemetry.context import Context

from otel_agenteval.context import (
    SpanIdentity,
    Witness,
    identity_in,
    reportable,
    required_in_report,
    with_identity,
    with_witness,
)
from otel_agenteval.loops.guard import AgentLoopDetected
from otel_agenteval.model import BASELINE, CONDITIONS
from otel_agenteval.processor import report_everywhere
from otel_agenteval.proto.v1.evaluation_pb2 import ReportRunRequest
from otel_agenteval.sending.transport import REPORT_METHOD


class RunHandle:
    """One attempt at a task, as a context manager. Call `report` inside or afterwards."""

    def __init__(self, task_id: str, run_id: str, condition: str = BASELINE) -> None:
        self.task_id = required_in_report("task_id", task_id)
        self.run_id = required_in_report("run_id", run_id)
        if condition not in CONDITIONS:
            raise ValueError(f"condition is {condition!r}: give one of {', '.join(CONDITIONS)}")
        self.condition = condition
        self._session_id: str | None = None
        self._witness = Witness()
        self._says_how_it_went = False
        self._token: Token[Context] | None = None

    def __enter__(self) -> "RunHandle":
        outer = identity_in(None) or SpanIdentity()
        self._session_id = outer.session_id
        inner = outer._replace(task_id=self.task_id, run_id=self.run_id, condition=self.condition)
        self._token = context_api.attach(with_witness(self._witness, with_identity(inner)))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._token is not None:
            context_api.detach(self._token)
            self._token = None
        # `KeyboardInterrupt`, `SystemExit` and `GeneratorExit` say nothing about the agent.
        if kind is not None and issubclass(kind, Exception | AgentLoopDetected) and not self._says_how_it_went:
            self.report(success=False)

    def report(self, success: bool | None = None, confidence: float | None = None) -> None:
        """Tell the collector the outcome of the run, without waiting. Later reports replace earlier ones.

        `success` says whether the task was solved, `confidence` is the agent's own, in [0, 1]. A run that ends in an
        exception, or is stopped for a loop, is reported as failed, unless its success was reported before.

        Raises ValueError if neither is given, if `success` is not a bool, or if `confidence` is no number in [0, 1].
        """
        if success is None and confidence is None:
            raise ValueError(f"the report of run {self.run_id!r} says nothing: give success=, confidence=, or both")
        if success is not None and not isinstance(success, bool):
            raise ValueError(f"the report of run {self.run_id!r} has success {success!r}: give True or False")
        if confidence is not None and not (isinstance(confidence, SupportsFloat) and 0.0 <= float(confidence) <= 1.0):
            raise ValueError(f"the report of run {self.run_id!r} has confidence {confidence!r}: give one in [0, 1]")
        request = ReportRunRequest(
            task_id=self.task_id,
            run_id=self.run_id,
            condition=self.condition,
            session_id=reportable(self._current_session()),
            service_version=reportable(self._witness.service_version),
            reported_at_unix_nano=time.time_ns(),
        )
        if success is not None:
            request.success = success
            self._says_how_it_went = True
        if confidence is not None:
            request.confidence = float(confidence)
        report_everywhere(f"the report of run {self.run_id!r}", REPORT_METHOD, request.SerializeToString())

    def _current_session(self) -> str | None:
        current = identity_in(None)
        if current is not None and current.run_id == self.run_id and current.session_id is not None:
            return current.session_id
        return self._session_id


def run(task_id: str, run_id: str, condition: str = BASELINE) -> RunHandle:
    """Let spans that start inside belong to run `run_id` of a task. `condition` says how the agent or its tools were
    disturbed.

    A run id is unique within its task and the agent's version: with another `service.version`, the same ids name
    another run. Raises ValueError for an unknown condition, and for ids that are not strings of 1 to 1024 characters.
    """
    return RunHandle(task_id, run_id, condition)
