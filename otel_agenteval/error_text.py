"""Texts that begin like an error, by the words with which tools and frameworks tell a model of one."""

import re
from typing import Final

ERROR_TEXT: Final = re.compile(
    r"\s*(?:(?:\w+\.)*\w*(?:Error|Exception)\b\s*:"
    r"|error\b\s*(?:[:\-!(\n]|$)"
    r"|error (?:executing|running|calling|invoking|occurred|while|during)\b"
    r"|an (?:unexpected )?error occurred\b)",
    re.IGNORECASE,
)
FAILED: Final = frozenset(("error", "failed", "failure"))
"""What a result's `status` says of a failure, in lower case."""
