"""What the files of a collector hold, for tests that look for what must not be there."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import zstandard

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame, in which the log keeps a request."""
_CHUNK: Final = 4096
"""Bytes of a frame that are decompressed at once: what comes before damage is seen."""


def kept_bytes(path: Path) -> bytes:
    """Return the bytes of a file, and behind them those of the requests in it, also in pages that are free."""
    raw = path.read_bytes()
    found = [raw]
    start = raw.find(_MAGIC)
    while start >= 0:
        end = raw.find(_MAGIC, start + 1)
        found.append(_decompressed(raw[start : end if end >= 0 else len(raw)]))
        start = end
    return b"\0".join(found)


def all_kept_bytes(folder: Path) -> dict[str, bytes]:
    """Return the bytes in each file below a folder, by its path there, but those of the lock."""
    return {
        str(path.relative_to(folder)): kept_bytes(path)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def _decompressed(frame: bytes) -> bytes:
    stream = zstandard.ZstdDecompressor().decompressobj()
    found = []
    with suppress(zstandard.ZstdError):
        for start in range(0, len(frame), _CHUNK):
            found.append(stream.decompress(frame[start : start + _CHUNK]))
            if stream.eof:
                break
    return b"".join(found)
