"""Texts that begin like an error, by the words with which tools and frameworks tell a model of one."""

import re
from collections.abc import Mapping
from typing import Final

from otel_agenteval.detectors.tool_names import tool_name
from otel_agenteval.model import Json

ERROR_TEXT: Final = re.compile(
    r"\s*(?:(?:\w+\.)*\w*(?:Error|Exception)\b\s*:"
    r"|error\b\s*(?:[:\-!(\n]|$)"
    r"|error (?:executing|running|calling|invoking|occurred|while|during)\b"
    r"|an (?:unexpected )?error occurred\b"
    r"|traceback \(most recent call last\))",
    re.IGNORECASE,
)
_FAILED: Final = frozenset(("error", "failed", "failure"))
_DONE: Final = ("success", "ok")
_ERRORS: Final = ("error", "errors")
_IS_ERROR: Final = ("isError", "is_error")
_NOTHING_READ: Final = frozenset(("status", "error_message"))
_CODES: Final = ("status_code", "statusCode")


def tells_failure(result: Mapping[str, Json], tool: str) -> bool:
    """Return whether a field at the top of the result of `tool` says that it failed. Of a tool that reads, `status` is
    what was asked about, and no failure of its own; in Google ADK's form, nothing but an error was read."""
    status = result.get("status")
    return (
        any(result.get(key) for key in _ERRORS)
        or any(result.get(key) is False for key in _DONE)
        or any(result.get(key) is True for key in _IS_ERROR)
        or any(isinstance(code, int) and 400 <= code <= 599 for code in map(result.get, _CODES))
        or (
            isinstance(status, str)
            and status.lower() in _FAILED
            and (not tool_name(tool).reads or result.keys() == _NOTHING_READ)
        )
    )
