"""A judge's part in the evaluation, played by the test."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agenteval_collector.evaluation.referrals import Referrals
from agenteval_collector.model.judge_jobs import JudgeExchange, JudgeJob, Judgement, Referral

from otel_agenteval.finding import Finding
from otel_agenteval.model import Trace
from otel_agenteval.outcome import JudgedPart, Outcome, Score, Status, Unscored

PENDING = Unscored(status=Status.PENDING, reason="waiting for the judge")


class Referring(Referrals):
    """Refers every trace, as one drawn at random, with these outcomes by evaluator; what is not among them is not
    judged."""

    def __init__(self, outcomes: Mapping[str, Outcome], part: JudgedPart | None = JudgedPart.RANDOM) -> None:
        super().__init__((), None)
        self.outcomes = outcomes
        self.part = part

    def refer(self, trace: Trace, session_id: str, findings: Sequence[Finding]) -> list[Referral]:
        return [
            Referral(name=name, version="7", model="judge-1", threshold=0.5, outcome=outcome, part=self.part)
            for name, outcome in self.outcomes.items()
        ]

    def refer_session(self, session_id: str) -> Referral | None:
        return None


def judged(value: float) -> Score:
    return Score(value=value, reason="as the judge says")


def judgement(job: JudgeJob, outcome: Outcome, *exchanges: JudgeExchange) -> Judgement:
    """Everything that the job waits for, by one outcome."""
    evaluations = tuple(replace(each, outcome=outcome) for each in job.pending)
    return Judgement(job=job, evaluations=evaluations, exchanges=exchanges)


def exchange(**changes: object) -> JudgeExchange:
    arguments: dict[str, object] = {
        "question": "confidence",
        "version": "1",
        "model": "judge-1",
        "asked_at": 1_700_000_000_000_000_000,
        "instructions": "How sure is it?",
        "data": '{"said": "yes"}',
        "reply": '{"confidence": 0.5}',
        "problem": None,
        "input_tokens": 100,
        "output_tokens": 10,
        "usd": 0.01,
        "seconds": 1.5,
    }
    return JudgeExchange(**{**arguments, **changes})  # type: ignore[arg-type]
