"""The place of the judge's stage, where no judge is configured."""

from collections.abc import Callable

from agenteval_collector.config import NO_JUDGE
from agenteval_collector.model.judging import JudgeJob


class NoJudgeStage:
    """Has no room for jobs, as no outcome is left to it. Its trouble is that there is no judge."""

    trouble = NO_JUDGE
    health = None
    room = 0
    waiting = 0

    def start(self) -> None: ...

    def shutdown(self, timeout: float = 0.0) -> None: ...

    def take_job(self, job: JudgeJob) -> None: ...

    def drain(self, progress: Callable[[int], None]) -> None: ...
