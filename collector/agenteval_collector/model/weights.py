"""What telemetry takes in memory beside its own bytes, so that bounds in bytes hold: measured."""

from typing import Final

TRACE_BYTES: Final = 1000
"""An open trace, without its spans and log records."""
OFFSET_BYTES: Final = 60
"""A request that a trace came in."""
COUNTS_BYTES: Final = 900
"""The counts of a trace whose processes count their spans."""
SPAN_BYTES: Final = 190
"""A serialized span of a trace."""
LOG_BYTES: Final = 70
"""A serialized log record of a trace."""
REQUEST_BYTES: Final = 250
"""A request that waits."""
ARRIVAL_BYTES: Final = 450
"""A decoded span that waits."""
DECODED: Final = 2
"""Bytes that a byte of a decoded span takes: 1.3 in requests of many spans, 2.4 in those of one."""
