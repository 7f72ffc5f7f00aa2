"""The log of the process on stderr: as lines for people, or as JSON for programs."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """Writes each record as a line of JSON: `time` (RFC 3339, UTC), `level`, `logger`, `message`, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # ASCII alone: no character of a hostile text can end the line, or move a terminal's cursor.
        return json.dumps(entry)


def write_logs(level: LogLevel, log_format: LogFormat) -> None:
    """Write the records of all loggers from this level on to stderr. Replaces what was set before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(force=True, level=level.upper(), handlers=[handler])
