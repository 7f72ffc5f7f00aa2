"""Bytes flipped in the files of a killed collector: it starts or says why not, `repair` saves the rest, and it goes on.

    python -m tests.faults.damage --flips 100 [--seed N] [--folder FOLDER]

Fills a data folder and kills the collector. Each flip then strikes a copy of it: one byte of one file, a sector of 512
zeros, or an end that is cut off. Afterwards a collector must run and score, after `agenteval repair` at the most; what
is missing must be named by `check`, `repair` or the quarantine, and nothing may be there twice. Prints one JSON object,
and ends with 1 where that does not hold.
"""

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from tests.faults.workload import parts, send_over_http
from tests.support.crashing import SCRIPT, CollectorProcess
from tests.support.eventually import eventually
from tests.support.otlp import trace_id

TRACES: Final = 60
"""In the folder that is damaged. Every other one lacks its second request at the kill."""
SECTOR: Final = 512
WITHIN: Final = 60.0
"""Seconds for whatever must happen."""
READ: Final = ("sessions", "traces", "problems", "agents", "quarantine", "alarms", "labels", "quality", "reliability")
_QUICK: Final = {"AGENTEVAL_ASSEMBLY__SILENCE": "2"}


@dataclass
class Damage:
    """What was done, and what was found wrong with it."""

    flips: dict[str, int] = field(default_factory=dict)
    """By file and kind."""
    repaired: int = 0
    """Times that a collector did not start before a repair."""
    set_aside: int = 0
    """Times that something was set aside."""
    missing: int = 0
    """Acknowledged traces that were not there afterwards, with something said of it."""
    silent: list[str] = field(default_factory=list)
    """Acknowledged traces that were not there, and nothing was said."""
    double: list[str] = field(default_factory=list)
    wedged: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not (self.silent or self.double or self.wedged or self.tracebacks)


def fill(folder: Path) -> Sequence[int]:
    """Fill a data folder, and kill its collector. Returns the numbers of the traces that were acknowledged whole."""
    process = CollectorProcess(folder, _QUICK, stderr=folder.with_suffix(".stderr"))
    whole = []
    for number in range(1, TRACES + 1):
        first, second = parts(number, session=f"session-{number % 7}")
        assert send_over_http(process.addresses, first)
        if number % 2 or number < TRACES // 2:
            assert send_over_http(process.addresses, second)
            whole.append(number)
    eventually(lambda: len(_stored(folder)) >= TRACES // 2, within=WITHIN)
    process.stop(SIGKILL)
    return whole


def strike(folder: Path, random: Random) -> str:
    """Damage one file of a folder at random, and say what was done."""
    file = random.choice([path for path in sorted(folder.iterdir()) if path.stat().st_size])
    size = file.stat().st_size
    kind = random.choices(("byte", "sector", "cut"), weights=(8, 2, 1))[0]
    at = random.randrange(size)
    with file.open("r+b") as opened:
        if kind == "cut":
            opened.truncate(at)
        else:
            at -= at % SECTOR if kind == "sector" else 0
            opened.seek(at)
            was = opened.read(1)[0]
            opened.seek(at)
            opened.write(bytes(min(SECTOR, size - at)) if kind == "sector" else bytes([was ^ random.randrange(1, 256)]))
    return f"{kind} {at} of {file.name}"


class Aftermath:
    """What follows of one flip."""

    def __init__(self, folder: Path, what: str, whole: Sequence[int], damage: Damage) -> None:
        self._folder = folder
        self._what = what
        self._whole = whole
        self._damage = damage
        self._said = ""

    def look(self) -> None:
        """Go on with a collector on this folder, and note what is wrong with that."""
        process = self._started()
        if process is None:
            return
        try:
            self._check(process)
        except AssertionError as error:
            self._damage.wedged.append(f"{self._what}: {str(error)[:300]}")
        finally:
            process.stop(SIGKILL)
            self._note_traceback("the collector", self._log.read_text())

    @property
    def _log(self) -> Path:
        return self._folder.with_suffix(".stderr")

    def _started(self) -> CollectorProcess | None:
        for is_repaired in (False, True):
            try:
                return CollectorProcess(self._folder, _QUICK, stderr=self._log)
            except AssertionError as refusal:
                self._note_traceback("the start", str(refusal))
                if is_repaired:
                    self._damage.wedged.append(f"{self._what}: it does not start after a repair: {refusal}"[:600])
                    return None
                self._damage.repaired += 1
                self._said += str(refusal) + self._run("check") + self._run("repair")
        return None

    def _check(self, process: CollectorProcess) -> None:
        new = [*range(9001, 9006)]
        for number in new:
            for part in parts(number, session="after"):
                eventually(lambda part=part: send_over_http(process.addresses, part), within=WITHIN)  # type: ignore[misc]
        wanted = {trace_id(number).hex() for number in new}
        eventually(lambda: wanted <= set(_stored(self._folder)), within=WITHIN, every=0.2)
        for path in ("/readyz", *(f"/api/v1/{each}" for each in READ)):
            answer = httpx.get(f"http://{process.addresses['web']}{path}", timeout=WITHIN, trust_env=False)
            assert answer.status_code == 200, f"{path} is {answer.status_code}: {answer.text[:200]}"
        expected = {trace_id(number).hex() for number in self._whole}
        until = time.monotonic() + 6
        while expected - set(_stored(self._folder)) and time.monotonic() < until:
            time.sleep(0.3)
        stored = Counter(_stored(self._folder))
        aside = httpx.get(f"http://{process.addresses['web']}/api/v1/quarantine", trust_env=False).json()["items"]
        self._damage.set_aside += bool(aside)
        self._damage.double += [f"{self._what}: {each}" for each, count in stored.items() if count > 1]
        code = process.stop(SIGTERM, within=WITHIN)
        assert code == 0, f"it ended with {code} at a SIGTERM"
        missing = expected - set(stored)
        self._said += self._run("check") + (str(aside) if aside else "")
        if missing and not self._said.strip():
            self._damage.silent.append(f"{self._what}: {len(missing)} are missing")
        self._damage.missing += len(missing)

    def _run(self, command: str) -> str:
        """Return what a command says is wrong; nothing where all is well."""
        done = subprocess.run(
            [str(SCRIPT), command, "--data-dir", str(self._folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN,
        )
        self._note_traceback(command, done.stderr)
        return "" if command == "check" and not done.returncode else done.stdout + done.stderr

    def _note_traceback(self, whose: str, said: str) -> None:
        if "Traceback" in said:
            self._damage.tracebacks.append(f"{self._what}: {whose}: {said[said.index('Traceback') :][-900:]}")


def _stored(folder: Path) -> Sequence[str]:
    try:
        with closing(sqlite3.connect(f"file:{folder / 'agenteval.db'}?mode=ro", uri=True)) as store:
            return [row[0] for row in store.execute("SELECT trace_id FROM traces NOT INDEXED")]
    except sqlite3.DatabaseError:
        return []


def run(folder: Path, flips: int, seed: int) -> Damage:
    """Strike so many copies of a folder."""
    damage, random = Damage(), Random(seed)
    filled = folder / "filled"
    filled.mkdir()
    whole = fill(filled)
    for number in range(1, flips + 1):
        copy = folder / f"copy-{number}"
        shutil.copytree(filled, copy)
        what = strike(copy, random)
        struck = f"{what.partition(' ')[0]} of {what.rpartition(' ')[2]}"
        damage.flips[struck] = damage.flips.get(struck, 0) + 1
        print(f"{number}/{flips} {what}", flush=True)
        Aftermath(copy, what, whole, damage).look()
        shutil.rmtree(copy)
        if not damage.is_right:
            print(json.dumps(asdict(damage)), flush=True)
    return damage


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flips", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, help="an empty folder to work in; else a temporary one")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with TemporaryDirectory() as temporary:
        damage = run(given.folder or Path(temporary), given.flips, given.seed)
    print(json.dumps(asdict(damage), indent=1))
    sys.exit(not damage.is_right)


if __name__ == "__main__":
    main()
