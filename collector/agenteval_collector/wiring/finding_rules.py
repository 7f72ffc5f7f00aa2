"""Findings as the settings want them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from agenteval_collector.config import FindingConfig, FindingsConfig
from otel_agenteval.detectors import LOOP_KINDS
from otel_agenteval.finding import Finding, Mode

_MODES: Final = {"observe": Mode.OBSERVE, "alarm": Mode.ALARM}


class FindingRules:
    """Called with findings for those of them that are not off, with the severity and the mode that are set."""

    def __init__(self, config: FindingsConfig) -> None:
        self._default = config.kinds
        self._agents = {agent: own.kinds for agent, own in config.agents.items()}

    def __call__(self, found: Iterable[Finding]) -> list[Finding]:
        return [ruled for finding in found if (ruled := self._ruled(finding)) is not None]

    def _ruled(self, finding: Finding) -> Finding | None:
        config = self._of(finding.agent).get(finding.kind)
        if config is None:
            return finding
        if config.mode == "off":
            return None
        # The detectors have decided on the mode of a loop.
        mode = finding.mode if finding.kind in LOOP_KINDS else _MODES.get(config.mode or "record")
        return replace(finding, severity=config.severity or finding.severity, mode=mode)

    def _of(self, agent: str | None) -> Mapping[str, FindingConfig]:
        return self._agents.get(agent, self._default) if agent is not None else self._default
