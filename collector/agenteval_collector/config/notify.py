"""The settings of notifications."""

from typing import Literal

from pydantic import Field, SecretStr

from agenteval_collector.config.values import Section, Url


class NotifyConfig(Section):
    """Where alarms and the daily digest of problems are sent. Without `urls` nothing is sent."""

    urls: tuple[SecretStr, ...] = ()
    """Addresses in the form of Apprise: `slack://...`, `msteams://...`, `mailto://...`, `pagerduty://...`, `json://...`."""
    severity: Literal["critical", "warning", "info"] = "info"
    """The least severity of an alarm that is sent."""
    digest: int | None = Field(default=8, ge=0, le=23)
    """The hour (UTC) of the daily digest of problems; None: no digest."""
    page: Url = None
    """The address at which people reach the page, for links: `https://agenteval.example.org`."""
