"""Texts that begin like an error, by the words with which tools and frameworks tell a model of one."""

import re
from typing import Final

from otel_agenteval.model import Json
from otel_agenteval.tool_names import reads, words_of

ERROR_TEXT: Final = re.compile(
    r"\s*(?:(?:\w+\.)*\w*(?:Error|Exception)\b\s*:"
    r"|error\b\s*(?:[:\-!(\n]|$)"
    r"|error (?:executing|running|calling|invoking|occurred|while|during)\b"
    r"|an (?:unexpected )?error occurred\b)",
    re.IGNORECASE,
)
_FAILED: Final = frozenset(("error", "failed", "failure"))


def tells_failure(status: Json, tool: str) -> bool:
    """Whether the `status` in a result of `tool` is a failure's; of a tool that reads, it is what was asked about."""
    return isinstance(status, str) and status.lower() in _FAILED and not reads(words_of(tool))
