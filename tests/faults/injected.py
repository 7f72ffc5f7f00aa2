"""The faults. Each strikes a running collector, and is over when it returns: then a collector runs again."""

import contextlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

from tests.faults.shifted import write_shift
from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually

ROOM = "4g"
"""The size of the folder's file system. It takes memory as it fills."""
STOPS_WITHIN = 60.0
"""Seconds for a shutdown: 20 are promised, on a machine that is not overloaded."""
HOURS = (-26, -3, 3, 26)
"""How far the clock is shifted."""


class Struck:
    """A collector to strike, its data on a file system of its own where that can be mounted. `environ` is its own."""

    def __init__(self, folder: Path, environ: dict[str, str], random: Random) -> None:
        self.random = random
        self.can_fill = _mount(folder)
        self.data_dir = folder / "data"
        self.data_dir.mkdir()
        self._folder = folder
        self._environ = environ
        self._shift = folder / "shift"
        write_shift(self._shift, 0)
        self.acknowledged: list[int] = []
        shifted = (sys.executable, "-m", "tests.faults.shifted", str(self._shift))
        self.process = CollectorProcess(self.data_dir, self._environ, agenteval=shifted)

    def close(self) -> None:
        self.process.send_signal(SIGKILL)
        if self.can_fill:
            subprocess.run(["umount", "-l", self._folder], check=True)

    def kill(self) -> None:
        """Kill it at any moment."""
        self.process.stop(SIGKILL)
        self.process.start(self._environ)

    def end(self) -> None:
        """End it as an operator does."""
        assert self.process.stop(SIGTERM, within=STOPS_WITHIN) == 0
        self.process.start(self._environ)

    def suspend(self) -> None:
        """Let it stand still for a while."""
        with self._signalled():
            self._wait()

    def fill_the_disk(self) -> None:
        """Leave its disk less than a request's room for a while."""
        self._fill(self.random.choice((0, 4096, 65_536)))
        self._wait()
        self._resize(ROOM)

    def kill_on_a_full_disk(self) -> None:
        """Kill it while its disk is full."""
        self._fill()
        self._wait()
        self.process.stop(SIGKILL)
        self._resize(ROOM)
        self.process.start(self._environ)

    def exhaust_descriptors(self) -> None:
        """Leave it no descriptor more than it has for a while."""
        pid = self.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        in_use = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use, before[1]))
        self._wait()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    def shift_the_clock(self) -> None:
        """Let the time of day jump by hours, and back."""
        write_shift(self._shift, 3600 * self.random.choice(HOURS))
        self._wait()
        write_shift(self._shift, 0)

    def restore(self) -> None:
        """Kill it, and go on from a copy of its folder, as after the loss of a machine whose disk was copied."""
        self.process.stop(SIGKILL)
        copy = self._folder / "copy"
        shutil.copytree(self.data_dir, copy)
        shutil.rmtree(self.data_dir)
        copy.rename(self.data_dir)
        self.process.start(self._environ)

    def faults(self) -> dict[Callable[[], None], int]:
        """The faults that can be injected here, with their weights."""
        filling = {self.fill_the_disk: 4, self.kill_on_a_full_disk: 2} if self.can_fill else {}
        always = {self.kill: 5, self.end: 2, self.restore: 1, self.suspend: 3, self.shift_the_clock: 3}
        return {**always, self.exhaust_descriptors: 2, **filling}

    @contextmanager
    def _signalled(self) -> Iterator[None]:
        self.process.send_signal(SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(SIGCONT)

    def _wait(self) -> None:
        time.sleep(self.random.uniform(0.3, 3.0))

    def _fill(self, left: int = 0) -> None:
        """Leave so many bytes. It is filled by others meanwhile, and cannot be smaller than what it holds."""
        eventually(lambda: self._resize(str(shutil.disk_usage(self._folder).used + left)))

    def _resize(self, size: str) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self._folder)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _mount(folder: Path) -> bool:
    """Give the folder a file system of its own; False where that is not allowed."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", str(folder)]
        subprocess.run(mount, check=True, capture_output=True)
        return True
    return False
