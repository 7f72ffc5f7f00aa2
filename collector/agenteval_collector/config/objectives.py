"""The objectives of agents, which alarms compare with in place of an agent's own past."""

from typing import Annotated

from pydantic import Field

from agenteval_collector.config.values import Section


class ObjectiveConfig(Section):
    """What is expected of an agent. What is not set is compared with the agent's own past."""

    failing: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of traces with a failure that is allowed."""
    latency: Annotated[float, Field(gt=0)] | None = None
    """Seconds that 95 % of the traces may take."""
    cost: Annotated[float, Field(gt=0)] | None = None
    """US dollars that 95 % of the sessions may cost."""
    owner: str | None = None
    """Who is told: a label of the agent's alarms."""
