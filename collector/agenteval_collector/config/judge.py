"""Settings of the judge: which, how it is asked, what it may use up, and the user's own questions to it."""

import math
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from agenteval_collector.config.values import PriceConfig, Seconds, Section, Share, Url

NO_JUDGE = "this collector has no judge: set judge.base_url or judge.api_key, and leave judge.enabled on"
"""The reason for a judged score that is not there, and the way to get one."""


SPREAD = 0.7
"""The temperature of votes where there are several."""


class BudgetConfig(Section):
    """The most that the judge may use up in an hour and in a day, of UTC; None: no bound."""

    requests_per_hour: int | None = Field(default=None, ge=0)
    requests_per_day: int | None = Field(default=None, ge=0)
    tokens_per_hour: int | None = Field(default=None, ge=0)
    """Input and output together."""
    tokens_per_day: int | None = Field(default=None, ge=0)
    usd_per_hour: float | None = Field(default=None, ge=0)
    """Needs the price of every model that is asked, in `judge.prices`."""
    usd_per_day: float | None = Field(default=None, ge=0)


def _scale(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] == ends[1] or not math.isfinite(ends[1] - ends[0]):
        raise ValueError(f"{list(ends)} is no scale: its ends must be two different finite numbers")
    return ends


class RubricConfig(Section):
    """A question of the user's own to the judge, evaluated like the built-in ones."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    question: str = Field(min_length=1)
    """The question about a trace; it says what a good and a bad answer look like."""
    scale: Annotated[tuple[float, float], AfterValidator(_scale)] = (0.0, 1.0)
    """The worst and the best number that the judge may give; scores are mapped to 0 and 1."""
    threshold: Share = 0.5
    """Of the score in [0, 1], not of the scale."""
    model: str | None = None


class JudgeConfig(Section):
    """The LLM that judges: any endpoint that speaks the OpenAI protocol. On where `base_url` or `api_key` is given."""

    enabled: bool = True
    """False: never, also where the environment has an OPENAI_API_KEY that is there for something else."""
    model: str = "gpt-4o-mini"
    base_url: Url = None
    """Else OPENAI_BASE_URL."""
    api_key: SecretStr | None = None
    """Else OPENAI_API_KEY."""
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """By model."""
    budget: BudgetConfig = BudgetConfig()
    sample: Share = 1.0
    """Share of the sessions that are drawn at random, by their ids, and judged."""
    escalate: Share = 0.1
    """Share of the sessions that are judged at most beside those, because of what was found in them."""
    votes: int = Field(default=1, ge=1, le=15)
    """Times that a trace is judged, each time from the extraction on; a score is the median."""
    band: float = Field(default=0.05, ge=0, le=0.5)
    """A score this near to its threshold is found twice more, as far as the budget allows; 0: never."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """Of a single vote; of several, too, where it is above 0, else they have 0.7."""
    canaries: int = Field(default=30, ge=0, le=500)
    """Judged traces that are asked about again each day, to notice when the judge says something else; 0: none."""
    second_model: str | None = None
    """A model at the same endpoint that `agenteval judge --check` asks, too."""
    timeout: Seconds = 30.0
    """Seconds for one request."""
    concurrency: int = Field(default=8, ge=1, le=256)
    """Requests under way at once."""
    backlog: int = Field(default=10_000, ge=1)
    """Traces that may wait for the judge; what comes on top of them fails."""
    trace_tokens: int = Field(default=8_000, ge=500)
    """Tokens that the judge gets to read, about: of a trace, and of what came before it in its session, which has at
    most a third of them. The middle is left out of longer ones."""
    redact: bool = True
    """Replace secrets and personal data before anything leaves for the judge."""
    rubrics: tuple[RubricConfig, ...] = ()

    def temperature_of(self, vote: int) -> float:
        """Return the temperature of a vote by its number: of several at 0, all would be the same."""
        return self.temperature or (SPREAD if self.votes > 1 or vote else 0.0)

    @property
    def on(self) -> bool:
        """True where there is a judge."""
        return self.enabled and (self.base_url is not None or self.api_key is not None)
