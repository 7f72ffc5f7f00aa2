"""The history checker: random faults strike a loaded collector, and afterwards all that it acknowledged is looked for.

    python -m tests.faults.history --faults 300 [--seed N] [--folder FOLDER]

Prints every fault as it strikes, and at the end one JSON object; ends with 1 where something was lost or double. As
root on Linux it has a disk of its own, which is filled, turns read-only, and loses what was not synced.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from signal import SIGTERM, signal
from tempfile import TemporaryDirectory
from typing import Any

from agenteval_collector.app.data_files import check_data

from tests.faults.disk import Disk, disk_in
from tests.faults.events import EventBackend, event_backend
from tests.faults.injected import Struck
from tests.faults.on_disk import DiskFaults
from tests.faults.person import left_in
from tests.faults.sums import Look, wrong_sums
from tests.faults.workload import Workload, answer, question
from tests.support.eventually import eventually
from tests.support.otlp import trace_id

RECOVERS_WITHIN = 180.0
"""Seconds after a fault until something is acknowledged again, on a machine that does other work."""
BETWEEN = 10
"""Traces that are acknowledged between two faults at least."""
SCORED_WITHIN = 300.0
"""Seconds after the last fault until everything is scored and every event has arrived."""


@dataclass
class History:
    """What was done, and what was found wrong with it: trace numbers by what is wrong with them."""

    faults: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    requests: int = 0
    seconds: float = 0.0
    lost: list[int] = field(default_factory=list)
    double: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    events: int = 0
    events_lost: list[str] = field(default_factory=list)
    events_repeated: int = 0
    events_contradicting: int = 0
    labels: int = 0
    labels_lost: list[int] = field(default_factory=list)
    deleted: int = 0
    deleted_there: list[int] = field(default_factory=list)
    receipts_lost: list[str] = field(default_factory=list)
    wrong_sums: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What the collector did in the middle of a fault that it must not do."""
    counted: int = 0
    """Traces that the counters of all lives told of, as far as anybody asked them before the fault."""
    stored: int = 0
    taken_back: list[int] = field(default_factory=list)
    """Traces that each loss of what was not synced took from the store; counters tell of them again."""
    cores_read_only: float = 0.0
    """That the collector kept busy while its disk was read-only, at most."""
    mebibytes_read_only: float = 0.0
    """By which it grew meanwhile, at most."""

    @property
    def is_right(self) -> bool:
        wrong = (
            *(self.lost, self.double, self.wrong, self.events_lost, self.events_contradicting),
            *(self.labels_lost, self.deleted_there, self.receipts_lost),
            *(self.wrong_sums, self.damage, self.complaints),
        )
        return not any(wrong) and self.counted <= self.stored + self.deleted + sum(self.taken_back)


def run(folder: Path, faults: int, seed: int) -> History:
    """Strike a collector so many times, and look for everything afterwards."""
    history, begun = History(), time.monotonic()
    with event_backend() as (backend, endpoint), disk_in(folder) as disk:
        environ = {
            "AGENTEVAL_EXPORT__ENDPOINT": endpoint,
            "AGENTEVAL_EXPORT__INTERVAL": "3600",
            "AGENTEVAL_SESSION__IDLE": "30",
        }
        if disk is None:
            print("no disk can be mounted here: none is filled, turns read-only or loses anything", flush=True)
        struck = Struck(folder, (disk.folder if disk else folder) / "data", environ, Random(seed))
        try:
            _strike(struck, disk, history, faults)
            _wait_for_the_end(struck)
            history.stored = struck.look("SELECT count(*) FROM traces")[0][0]
            check_traces(struck.look, struck.load.acknowledged, backend, history)
            _check_person(struck, history)
            struck.stop()
            history.damage = [f"{each.file}: {each.what}" for each in check_data(struck.data_dir)]
            history.complaints = struck.complaints
        except BaseException:
            print(struck.said.read_text()[-5000:], flush=True)
            raise
        finally:
            struck.close()
    history.seconds = round(time.monotonic() - begun)
    return history


def _strike(struck: Struck, disk: Disk | None, history: History, faults: int) -> None:
    load, kinds = struck.load, struck.faults()
    if disk is not None:
        of_disk = DiskFaults(struck, disk)
        kinds |= of_disk.faults()
    counted: dict[int, int] = {}
    with load.running(), struck.person.running():
        for number in range(1, faults + 1):
            goes_on(load)
            counted[struck.process.pid] = _traces_counted(struck) or counted.get(struck.process.pid, 0)
            [fault] = struck.random.choices(list(kinds), weights=list(kinds.values()))
            history.faults[fault.__name__] = history.faults.get(fault.__name__, 0) + 1
            print(f"{number}/{faults} {fault.__name__}: {len(load.acknowledged)} acknowledged", flush=True)
            fault()
        goes_on(load)
    counted[struck.process.pid] = _traces_counted(struck)
    history.acknowledged, history.requests = len(load.acknowledged), load.sent
    history.counted = sum(counted.values())
    if disk is not None:
        history.taken_back = of_disk.taken_back
        history.cores_read_only = max((each.cores for each in of_disk.while_read_only), default=0.0)
        history.mebibytes_read_only = max((each.mebibytes for each in of_disk.while_read_only), default=0.0)


def goes_on(load: Workload) -> None:
    """Return once further traces are acknowledged."""
    enough = len(load.acknowledged) + BETWEEN
    eventually(lambda: len(load.acknowledged) >= enough, within=RECOVERS_WITHIN)


def _traces_counted(struck: Struck) -> int:
    """Return how many traces the counters of this life tell of; 0 where they do not answer now."""
    try:
        page = struck.process.get("/metrics")
    except OSError:
        return 0
    return round(sum(map(float, re.findall(r"^agenteval_traces_total{.*} (\S+)$", page or "", re.MULTILINE))))


def _wait_for_the_end(struck: Struck) -> None:
    """Wait until what was acknowledged is scored, and every event has arrived."""
    wanted = {trace_id(number).hex() for number in struck.load.acknowledged}

    def all_is_there() -> bool:
        there = {row[0] for row in struck.look("SELECT trace_id FROM traces")}
        waiting = "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM deletions WHERE done_at IS NULL)"
        return wanted <= there and struck.look(waiting)[0][0] == 0

    try:
        eventually(all_is_there, within=SCORED_WITHIN, every=1.0)
    except AssertionError:
        print("not everything has arrived; what is missing follows", flush=True)


def check_traces(look: Look, acknowledged: Sequence[int], backend: EventBackend, history: History) -> None:
    """Look for every acknowledged trace, its outcomes and their events."""
    views: dict[str, str] = dict(look("SELECT trace_id, view FROM trace_views"))
    outcomes = defaultdict(list)
    for found_in, name, status, score in look(
        "SELECT subject_id, name, status, score FROM outcomes WHERE subject = 'trace'"
    ):
        outcomes[found_in].append((name, status, score))
    said = {(each.trace_id, each.name, each.score) for each in backend.said.values()}
    for number in acknowledged:
        wanted = trace_id(number).hex()
        if wanted not in views or not outcomes[wanted]:
            history.lost.append(number)
            continue
        names = Counter(name for name, _, _ in outcomes[wanted])
        if max(names.values()) > 1:
            history.double.append(number)
        if not _is_as_sent(json.loads(views[wanted]), number):
            history.wrong.append(number)
        told = [(name, score) for name, status, score in outcomes[wanted] if status not in ("no_judge", "pending")]
        history.events_lost += [f"{name} of {wanted}" for name, score in told if (wanted, name, score) not in said]
    history.events, history.events_repeated = len(backend.said), backend.duplicates
    # Scores of sessions change with each trace, and are told on its last one.
    of_traces = Counter(each[:3] for each in backend.said.values() if each.name in ("coherence", "loop_detection"))
    history.events_contradicting = len(backend.contradictions) + sum(count > 1 for count in of_traces.values())


def _check_person(struck: Struck, history: History) -> None:
    person = struck.person
    there = {each[0] for each in struck.look("SELECT trace_id FROM traces UNION SELECT trace_id FROM trace_views")}
    labels = dict(struck.look("SELECT trace_id, value FROM labels"))
    receipts = {each[0] for each in struck.look("SELECT deletion_id FROM deletions WHERE done_at IS NOT NULL")}
    history.labels, history.deleted = len(person.labels), len(person.receipts)
    history.labels_lost = [each for each, value in person.labels.items() if labels.get(trace_id(each).hex()) != value]
    in_files = left_in(struck.data_dir, frozenset(person.receipts))
    history.deleted_there = [each for each in person.receipts if trace_id(each).hex() in there or each in in_files]
    history.receipts_lost = [*(each for each in person.receipts.values() if each not in receipts), *person.forgotten]
    history.wrong_sums = list(wrong_sums(struck.look))


def _is_as_sent(view: dict[str, Any], number: int) -> bool:
    [turn] = view["turns"]
    said = json.dumps(turn)
    return all(text in said for text in (f'"{question(number)}"', f'"{answer(number)}"', f'"result {number}"'))


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, help="an empty folder to work in; else a temporary one")
    given = parser.parse_args()
    signal(SIGTERM, lambda *_: sys.exit(1))  # What is mounted is unmounted, however it ends.
    print(f"seed {given.seed}", flush=True)
    with TemporaryDirectory() as temporary:
        history = run(given.folder or Path(temporary), given.faults, given.seed)
    print(json.dumps(asdict(history), indent=1))
    sys.exit(not history.is_right)


if __name__ == "__main__":
    main()
