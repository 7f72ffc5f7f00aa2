"""Settings of the judge: its endpoint and models, how it is asked, its budget, and the user's own rubrics."""

import math
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from agenteval_collector.config.values import PriceConfig, Seconds, Section, Share, Url

NO_JUDGE = "this collector has no judge: set judge.base_url or judge.api_key, and leave judge.enabled on"
"""The reason for an outcome without a judge, and the way to get one."""


SPREAD = 0.7
"""The temperature of votes if a trace has several and none is set."""


class BudgetConfig(Section):
    """The most that the judge may use up in an hour and in a day of UTC. None: no bound."""

    requests_per_hour: int | None = Field(default=None, ge=0)
    requests_per_day: int | None = Field(default=None, ge=0)
    tokens_per_hour: int | None = Field(default=None, ge=0)
    """Input and output tokens together."""
    tokens_per_day: int | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    """A bound in US dollars. It needs the price of every model that is asked, in `judge.prices`."""
    usd_per_day: float | None = Field(default=None, ge=0)


def _scale(ends: tuple[float, float]) -> tuple[float, float]:
    # Two finite ends may be too far apart: their difference is then infinite.
    if ends[0] == ends[1] or not math.isfinite(ends[1] - ends[0]):
        raise ValueError(f"{list(ends)} is no scale: its ends must be two different finite numbers")
    return ends


class RubricConfig(Section):
    """A question of the user's own to the judge, evaluated like the built-in ones."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    question: str = Field(min_length=1)
    """The question about a trace; it says what a good and a bad answer look like."""
    scale: Annotated[tuple[float, float], AfterValidator(_scale)] = (0.0, 1.0)
    """The worst and the best number that the judge may give. Scores are mapped so that these become 0 and 1."""
    threshold: Share = 0.5
    """Threshold of the score in [0, 1], not of the number on the scale."""
    model: str | None = None


class JudgeConfig(Section):
    """The LLM that judges, at any endpoint that speaks the OpenAI protocol.

    The judge is on if `base_url` or `api_key` is given, unless `enabled` is False.
    """

    enabled: bool = True
    """False: no judge is asked, even if the environment has an OPENAI_API_KEY for another purpose."""
    model: str = "gpt-4o-mini"
    base_url: Url = None
    """Without it, OPENAI_BASE_URL counts."""
    api_key: SecretStr | None = None
    """Without it, OPENAI_API_KEY counts."""
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """Prices by model."""
    budget: BudgetConfig = BudgetConfig()
    sample: Share = 1.0
    """Share of the sessions that are drawn at random, by their ids, and judged."""
    escalate: Share = 0.1
    """The largest share of the sessions that are judged in addition, because of their findings. What these leave of
    it is used for traces and sessions of which a guess of the verdict is least certain."""
    primary: str | None = None
    """The evaluator that has half of the level of the test whether a version is worse. None: `goal_success`, else
    `task_completion`."""
    votes: int = Field(default=1, ge=1, le=15)
    """Number of times that a trace is judged, each time from the extraction on. The score is the median."""
    band: float = Field(default=0.05, ge=0, le=0.5)
    """A score this near to its threshold is found up to twice more, as far as the budget allows. 0: never."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """Temperature of a single vote. Several votes have it too if it is above 0, else they have 0.7 (`SPREAD`)."""
    canaries: int = Field(default=30, ge=0, le=500)
    """Number of judged traces that are judged again each day, to notice a judge that drifts. 0: none."""
    timeout: Seconds = 30.0
    """Seconds that one request may take."""
    concurrency: int = Field(default=8, ge=1, le=256)
    """Number of requests that may be under way at once."""
    backlog: int = Field(default=10_000, ge=1)
    """Number of traces that may wait for the judge. The outcomes of further traces fail."""
    trace_tokens: int = Field(default=8_000, ge=500)
    """About how many tokens the judge gets to read of a trace and of what came before it in its session.

    What came before has at most a third of the tokens. Of longer texts, the middle is left out.
    """
    redact: bool = True
    """True if secrets and personal data are replaced before anything is sent to the judge."""
    rubrics: tuple[RubricConfig, ...] = ()

    def temperature_of(self, vote: int) -> float:
        """Return the temperature of a vote by its number, from 0."""
        # Several votes at temperature 0 would all be the same.
        return self.temperature or (SPREAD if self.votes > 1 or vote else 0.0)

    @property
    def on(self) -> bool:
        """True if there is a judge."""
        return self.enabled and (self.base_url is not None or self.api_key is not None)
