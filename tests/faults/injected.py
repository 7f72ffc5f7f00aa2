"""The faults. Each strikes a running collector, and is over when it returns: then a collector runs again."""

import resource
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

from otel_agenteval.doctor.web import NoWebAnswer, Web
from tests.faults.person import Person
from tests.faults.shifted import write_shift
from tests.faults.workload import Workload
from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually

STOPS_WITHIN = 60.0
"""Seconds for a shutdown: 20 are promised, on a machine that is not overloaded."""
TOLD_WITHIN = 60.0
"""Seconds until a collector knows that its disk refuses, or a file of it is gone."""
ON_ITS_WAY = 2.0
"""Seconds for answers of before a fault to arrive."""
HOURS = (-26, -3, 3, 26)
"""How far the clock is shifted."""


class Struck:
    """A collector to strike, and who uses it. `environ` is its own, `folder` is for what is not its data."""

    def __init__(self, folder: Path, data_dir: Path, environ: dict[str, str], random: Random) -> None:
        self.random = random
        self.load = Workload(lambda: self.process.addresses)
        self.person = Person(lambda: self.process.addresses)
        self.data_dir = data_dir
        data_dir.mkdir()
        self.said = folder / "stderr"
        self.complaints: list[str] = []
        """What it must not do in the middle of a fault."""
        self._environ = environ
        self._shift = folder / "shift"
        write_shift(self._shift, 0)
        shifted = (sys.executable, "-m", "tests.faults.shifted", str(self._shift))
        self.process = CollectorProcess(self.data_dir, self._environ, agenteval=shifted, stderr=self.said)

    def close(self) -> None:
        self.process.stop(SIGKILL)

    def start(self) -> None:
        """Start it again."""
        self.process.start(self._environ)

    def stop(self) -> None:
        """Stop it as an operator does."""
        if not self.process.runs:
            self.complaints.append("it ended by itself")
        elif (code := self.process.stop(SIGTERM, within=STOPS_WITHIN)) != 0:
            self.complaints.append(f"it ended with {code} at a SIGTERM")

    def wait(self) -> None:
        """Let a fault last for a while."""
        time.sleep(self.random.uniform(0.3, 3.0))

    def look(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows of the store."""
        with closing(sqlite3.connect(f"file:{self.data_dir / 'agenteval.db'}?mode=ro", uri=True)) as store:
            return store.execute(query).fetchall()

    def kill(self) -> None:
        """Kill it at any moment."""
        self.process.stop(SIGKILL)
        self.start()

    def end(self) -> None:
        """End it as an operator does, and start it again."""
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Let it stand still for a while."""
        with self.standing_still():
            self.wait()

    def exhaust_descriptors(self) -> None:
        """Leave it no descriptor more than it has for a while."""
        pid = self.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        in_use = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use, before[1]))
        self.wait()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    def shift_the_clock(self) -> None:
        """Let the time of day jump by hours, and back."""
        write_shift(self._shift, 3600 * self.random.choice(HOURS))
        self.wait()
        write_shift(self._shift, 0)

    def restore(self) -> None:
        """Kill it, and go on from a copy of its folder, as after the loss of a machine whose disk was copied."""
        self.process.stop(SIGKILL)
        copy = self.data_dir.with_name("copy")
        shutil.copytree(self.data_dir, copy)
        shutil.rmtree(self.data_dir)
        copy.rename(self.data_dir)
        self.start()

    def move_a_file(self) -> None:
        """Move a file away below it: it must take nothing more, say so, and end with an error. Then put it back."""
        file = self.data_dir / self.random.choice(("agenteval.db", "log.db"))
        away = file.with_name("away")
        file.rename(away)
        eventually(lambda: self.readiness() == 503, within=TOLD_WITHIN)
        time.sleep(ON_ITS_WAY)
        taken = self.load.taken
        self.wait()
        if self.load.taken != taken:
            self.complaints.append(f"it acknowledged without its {file.name}")
        if self.process.stop(SIGTERM, within=STOPS_WITHIN) == 0:
            self.complaints.append(f"it ended with 0 though its {file.name} was gone")
        away.rename(file)
        self.start()

    def readiness(self) -> int | None:
        """Return the status of `/readyz`; None if nobody answers."""
        try:
            return Web(f"http://{self.process.addresses['web']}").get("/readyz")[0]
        except NoWebAnswer:
            return None

    def faults(self) -> dict[Callable[[], None], int]:
        """The faults of the process, with their weights."""
        return {
            self.kill: 5,
            self.end: 2,
            self.restore: 1,
            self.suspend: 3,
            self.shift_the_clock: 3,
            self.exhaust_descriptors: 2,
            self.move_a_file: 2,
        }

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Suspend it meanwhile: no call to the kernel is under way."""
        self.process.send_signal(SIGSTOP)
        try:
            eventually(self._is_stopped)
            yield
        finally:
            self.process.send_signal(SIGCONT)

    def _is_stopped(self) -> bool:
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return all((each / "stat").read_text().rpartition(")")[2].split()[0] == "T" for each in threads)
