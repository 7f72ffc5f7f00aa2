"""Settings of findings: the severity and the mode of each kind."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from agenteval_collector.config.values import OffIsFalse, Section
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding, FindingKind, Mode, Severity
from otel_agenteval.loops.setting_values import merge

KINDS: Final = tuple(sorted({*FindingKind, *LOOP_KINDS}))
_MODES: Final = {"observe": Mode.OBSERVE, "alarm": Mode.ALARM}


FindingMode: TypeAlias = Annotated[Literal["off", "record", "observe", "alarm"], OffIsFalse]


class FindingConfig(Section):
    severity: Severity | None = None
    """`error`, `warning` or `info`. None: the severity that the kind has by default (docs/findings.md)."""
    mode: FindingMode | None = None
    """The mode of such findings. Each mode but `off` includes the modes before it.

    `off`: it is not looked for. `record`, the default: it is stored, shown and counted. `observe`: the agent's process
    is told of it when the trace is complete. `alarm`: it also stops an agent under guard at its next call in the
    session. Loops have no mode here: theirs is `loops.<kind>.mode`.
    """


_UNSET: Final = FindingConfig()
_TOLD_AT_ONCE: Final = frozenset({FindingKind.MODEL_FAILED})
"""Kinds that are found while their trace runs. They are told, unless the settings say otherwise."""


def _mode_of(kind: str) -> FindingMode:
    """Return the mode of a kind for which none is set."""
    return "observe" if kind in _TOLD_AT_ONCE else "record"


class KindsConfig(Section):
    """Settings of findings, by kind."""

    model_config = ConfigDict(extra="allow")
    # Pydantic checks the values of all further names by this annotation.
    __pydantic_extra__: dict[str, FindingConfig] = Field(init=False)

    @property
    def kinds(self) -> Mapping[str, FindingConfig]:
        """The settings of each kind that has any."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _knows_its_kinds(self) -> Self:
        for kind, config in self.kinds.items():
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is no kind of finding; there are {', '.join(KINDS)}")
            if kind in LOOP_KINDS and config.mode is not None:
                raise ValueError(f"{kind}.mode: {kind} is a loop, its mode is set in loops.{kind}.mode")
        return self


class FindingsConfig(KindsConfig):
    agents: dict[str, KindsConfig] = Field(default_factory=dict)
    """Settings of single agents, by name. What an agent does not set is as for all agents."""

    @model_validator(mode="before")
    @classmethod
    def _complete_agents(cls, values: Any) -> Any:
        agents = values.get("agents") if isinstance(values, Mapping) else None
        if not isinstance(agents, Mapping):
            return values
        # An agent's settings of a kind add to those for all agents, so that each agent's are complete.
        common = {kind: own for kind, own in values.items() if kind in KINDS and isinstance(own, Mapping)}
        completed = {agent: merge(common, own) if isinstance(own, Mapping) else own for agent, own in agents.items()}
        return {**values, "agents": completed}

    def apply(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings whose mode is not `off`, with the severity and the mode that the settings give them."""
        return [changed for finding in findings if (changed := self._changed(finding)) is not None]

    def _changed(self, finding: Finding) -> Finding | None:
        own = self.agents.get(finding.agent) if finding.agent is not None else None
        config = (own or self).kinds.get(finding.kind, _UNSET)
        if config.mode == "off":
            return None
        # The detector has already decided on the mode of a loop, by `loops.<kind>.mode`.
        mode = finding.mode if finding.kind in LOOP_KINDS else _MODES.get(config.mode or _mode_of(finding.kind))
        if mode is finding.mode and config.severity in (None, finding.severity):
            return finding
        return replace(finding, severity=config.severity or finding.severity, mode=mode)
