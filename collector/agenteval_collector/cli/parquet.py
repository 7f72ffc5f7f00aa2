"""Write documents of the API as Parquet. The columns follow from the type of the document."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from agenteval_collector.cli.terminal import fail

_ROWS: Final = 1_000
"""Rows that are held in memory, and written together."""


def columns(document: type) -> dict[str, str]:
    """Return the Arrow type of each field: a plain one has its own, a time is a timestamp, all else is JSON as text."""
    plain = {str: "string", int: "int64", float: "float64", bool: "bool"}

    def of(name: str, hint: Any) -> str:
        kinds = [kind for kind in get_args(hint) if kind is not type(None)] if get_origin(hint) is UnionType else [hint]
        if kinds == [str] and name.endswith("_at"):
            return "timestamp"
        return plain.get(kinds[0], "json") if len(kinds) == 1 else "json"

    return {name: of(name, hint) for name, hint in get_type_hints(document).items()}


def write_parquet(lines: Iterator[Mapping[str, Any]], document: type, file: Path) -> None:
    """Write a row for each line. End the command if pyarrow is missing or the file cannot be written."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        fail("Parquet takes pyarrow: pip install 'otel-agenteval[parquet]'")
    kinds = columns(document)
    arrow = {"timestamp": pa.timestamp("us", "UTC"), "json": pa.string()}
    schema = pa.schema(
        [(name, arrow[kind] if kind in arrow else pa.type_for_alias(kind)) for name, kind in kinds.items()]
    )
    try:
        with pq.ParquetWriter(file, schema) as writer:
            while rows := [_row(line, kinds) for line in islice(lines, _ROWS)]:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror or error}")


def _row(line: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    return {name: _value(line.get(name), kind) for name, kind in kinds.items()}


def _value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "json":
            return json.dumps(value)
        case "timestamp":
            return datetime.fromisoformat(value)
        case "float64":
            return float(value)
    return value
