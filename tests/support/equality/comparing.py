"""Documents in one form, and what differs between two folders of them."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

SHOWN: Final = 5
"""Differences that are shown of one document."""
COUNTED: Final = "instructions.json"
WITHIN: Final = 0.01
"""Share by which counts of instructions may differ."""


class Difference(NamedTuple):
    """What differs in a document, at a path such as `['traces'][0]['revision']`."""

    path: str
    text: str


_INDEX: Final = re.compile(r"\[\d+\]")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def settled(document: Any, since: float) -> Any:
    """Return the document without what depends on the moment: each time from `since` (Unix seconds) on is `now`."""
    if isinstance(document, dict):
        return {key: settled(value, since) for key, value in document.items()}
    if isinstance(document, list):
        return [settled(value, since) for value in document]
    if isinstance(document, str):
        return _TIME.sub(
            lambda found: "now" if datetime.fromisoformat(found[0]).timestamp() >= since else found[0], document
        )
    return document


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def save(path: Path, document: Any) -> None:
    """Write a document in the one form: sorted, and a value a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def differences(before: Path, after: Path) -> dict[str, list[Difference]]:
    """Return the differences of each document that differs. Raises FileNotFoundError if there are no documents."""
    folders = [{str(path.relative_to(folder)): path for path in folder.rglob("*.json")} for folder in (before, after)]
    for folder, documents in zip((before, after), folders, strict=True):
        if not documents:
            raise FileNotFoundError(f"{folder} has no documents")
    old, new = folders
    found = {name: [Difference("", f"only {'before' if name in old else 'after'}")] for name in old.keys() ^ new.keys()}
    for name in old.keys() & new.keys():
        texts = [path[name].read_text(encoding="utf-8") for path in folders]
        if texts[0] == texts[1]:
            continue
        unequal = list(_unequal(*map(json.loads, texts), within=WITHIN if name == COUNTED else 0.0))
        if unequal:
            found[name] = unequal
    return dict(sorted(found.items()))


def lines(found: Mapping[str, Sequence[Difference]]) -> Iterator[str]:
    """Yield the first differences of each document, then in how many documents each path differs."""
    for name, unequal in found.items():
        yield from (f"{name}{difference.path}: {difference.text}" for difference in unequal[:SHOWN])
        if len(unequal) > SHOWN:
            yield f"{name}: and {len(unequal) - SHOWN} more"
    documents: dict[str, set[str]] = defaultdict(set)
    for name, unequal in found.items():
        for difference in unequal:
            documents[_INDEX.sub("[]", difference.path)].add(name)
    for path, names in sorted(documents.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"in {len(names)}: {path or 'the whole document'}, as in {min(names)}"
    yield f"{len(found)} documents differ"


def _unequal(before: Any, after: Any, path: str = "", *, within: float) -> Iterator[Difference]:
    """Yield the paths at which two documents differ, and how."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            inner = f"{path}[{key!r}]"
            if key not in after:
                yield Difference(inner, f"only before: {_short(before[key])}")
            elif key not in before:
                yield Difference(inner, f"only after: {_short(after[key])}")
            else:
                yield from _unequal(before[key], after[key], inner, within=within)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _unequal(*pair, f"{path}[{number}]", within=within)
    elif isinstance(before, float) and isinstance(after, float):
        if abs(after - before) > within * abs(before):
            yield Difference(path, f"{before!r}, now {after!r}")
    elif before != after or type(before) is not type(after):
        yield Difference(path, f"{_short(before)}, now {_short(after)}")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}..."
