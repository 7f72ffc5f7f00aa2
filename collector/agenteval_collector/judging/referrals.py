"""Which outcomes of a trace are left to the judge, decided when the trace is evaluated and without asking."""

from collections.abc import Sequence
from dataclasses import dataclass

from agenteval_collector.judging.preclusion import preclude
from agenteval_collector.judging.selection import select
from agenteval_collector.records import URGENT, Referral
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Evaluation, Status, Unscored


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvaluator:
    """A built-in evaluator or a rubric that asks the judge; `of_runs`: about traces of runs alone."""

    name: str
    version: str
    model: str
    threshold: float
    of_runs: bool = False


class Referrals:
    """An outcome for each of `evaluators` on each trace: a reason for none where nothing is to be judged, sampled out
    where the session is not among the `share` that is judged, else pending."""

    def __init__(self, evaluators: Sequence[JudgedEvaluator], share: float) -> None:
        self._evaluators = evaluators
        self._share = share

    def refer(self, trace: Trace, session_id: str, cheap: Sequence[Evaluation]) -> list[Referral]:
        selection = select(trace, session_id, cheap, self._share)
        urgent: dict[str, Json] = {URGENT: True} if selection.urgent else {}
        status = Status.PENDING if selection.judged else Status.SAMPLED_OUT
        selected = Unscored(status=status, reason=selection.reason, metadata=urgent)
        evaluators = [each for each in self._evaluators if trace.run is not None or not each.of_runs]
        return [self._referral(each, preclude(trace, each.name) or selected) for each in evaluators]

    def _referral(self, evaluator: JudgedEvaluator, outcome: Unscored) -> Referral:
        return Referral(
            name=evaluator.name,
            version=evaluator.version,
            model=evaluator.model if outcome.status is Status.PENDING else None,
            threshold=evaluator.threshold,
            outcome=outcome,
        )
