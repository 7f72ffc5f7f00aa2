"""docs/instrumentations.md, made from the bundled recordings: python -m tests.support.instrumentations"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.truth import KINDS, Recording, Verdict, truths

PAGE = Path(__file__).parents[2] / "docs" / "instrumentations.md"

HEAD = """\
# Instrumentations

What is read of the recordings under `tests/data`, held against what is known to have happened: the same small agent,
its model scripted, in five scenarios (tools, a failing tool, a repeated answer, a changed plan, a failing model).
`make docs` writes this page, and a test compares it.

A number counts facts that were found. In brackets: **wrong** ones, **missed** ones, and ones that the instrumentation
did **not record** at all, of which nothing may be claimed. An empty cell: nothing of the kind happened.
"""

Counts = Mapping[str, Mapping[str, Counter[Verdict]]]


def count(paths: Iterable[Path]) -> Counts:
    """How many facts of each kind came out how, by instrumentation."""
    counts: defaultdict[str, defaultdict[str, Counter[Verdict]]] = defaultdict(lambda: defaultdict(Counter))
    for path in paths:
        recording = Recording.read(path)
        for fact in recording.facts():
            counts[recording.instrumentation][fact.kind][fact.verdict] += 1
    return {name: counts[name] for name in sorted(counts)}


def table(counts: Counts) -> str:
    """The counts in Markdown, a row for each instrumentation."""
    lines = [_row(["instrumentation", *KINDS]), _row(["---"] * (1 + len(KINDS)))]
    for name, by_kind in counts.items():
        lines.append(_row([f"`{name}`", *(_cell(by_kind.get(kind, Counter())) for kind in KINDS)]))
    total: Counter[Verdict] = Counter()
    for by_kind in counts.values():
        for verdicts in by_kind.values():
            total.update(verdicts)
    recorded = sum(total.values()) - total[Verdict.NOT_RECORDED]
    found = f"{total[Verdict.FOUND]} of {recorded} recorded facts found"
    return "\n".join(lines) + f"\n\n{found}, {total[Verdict.MISSED]} missed, {total[Verdict.WRONG]} wrong.\n"


def page(counts: Counts) -> str:
    """The whole of docs/instrumentations.md."""
    return f"{HEAD}\n{table(counts)}"


def _cell(verdicts: Counter[Verdict]) -> str:
    others = [
        f"{verdicts[verdict]} {verdict}"
        for verdict in (Verdict.WRONG, Verdict.MISSED, Verdict.NOT_RECORDED)
        if verdicts[verdict]
    ]
    found = str(verdicts[Verdict.FOUND]) if verdicts[Verdict.FOUND] or others else ""
    return f"{found} ({', '.join(others)})" if others else found


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(count(truths())))
