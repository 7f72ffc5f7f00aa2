"""Runs of a task: spans that start inside a run belong to it, and the application reports its outcome."""

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
    required_of_run,
    with_identity,
    with_witness,
)
from otel_agenteval.loops.guard import AgentLoopDetected
from otel_agenteval.model import BASELINE, CONDITIONS
from otel_agenteval.processor import report_everywhere
from otel_agenteval.proto.v1.evaluation_pb2 import ReportRunRequest
from otel_agenteval.sending.transport import REPORT_METHOD


class Run:
    """One attempt at a task, as a context manager. `report` may be called inside or afterwards."""

    def __init__(self, task_id: str, run_id: str, condition: str = BASELINE) -> None:
        self.task_id = required_of_run("task_id", task_id)
        self.run_id = required_of_run("run_id", run_id)
        if condition not in CONDITIONS:
            raise ValueError(f"condition is {condition!r}: give one of {', '.join(CONDITIONS)}")
        self.condition = condition
        self._session_id: str | None = None
        self._witness = Witness()
        self._says_how_it_went = False
        self._token: Token[Context] | None = None

    def __enter__(self) -> "Run":
        outer = identity_in(None) or SpanIdentity()
        self._session_id = outer.session_id
        inner = outer._replace(task_id=self.task_id, run_id=self.run_id, condition=self.condition)
        self._token = context_api.attach(with_witness(self._witness, with_identity(inner)))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._token is not None:
            context_api.detach(self._token)
            self._token = None
        # Whoever stops the program, or closes a generator, says nothing of the agent.
        if kind is not None and issubclass(kind, Exception | AgentLoopDetected) and not self._says_how_it_went:
            self.report(success=False)

    def report(self, success: bool | None = None, confidence: float | None = None) -> None:
        """Tell the collector the outcome of the run, without waiting for it. Later reports replace earlier ones.

        A run that an exception leaves, or a loop that stops it, is reported as failed where its success was not
        reported before.

        `success`: whether the task was solved. `confidence`: the agent's own, in [0, 1]. Raises ValueError where
        neither is given, success is not a bool, or the confidence no number in range.
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


def run(task_id: str, run_id: str, condition: str = BASELINE) -> Run:
    """Let spans started inside belong to run `run_id` of the task. `condition` says what was done to the agent or its
    tools.

    Ids are unique within a version of an agent: the same again, under another `service.version`, is another run.
    Raises ValueError for ids that are not non-empty strings of 1024 characters at most, and for an unknown condition.
    """
    return Run(task_id, run_id, condition)
