"""The faults of the disk below a running collector. Each is over when it returns: then a collector runs again."""

import time
from collections.abc import Callable
from signal import SIGKILL

from tests.faults.disk import Disk
from tests.faults.injected import ON_ITS_WAY, TOLD_WITHIN, Struck
from tests.faults.person import left_in
from tests.faults.usage import Usage
from tests.support.eventually import eventually

MOST_CORES, MOST_MEBIBYTES = 0.5, 64
"""What a collector may take more while its disk is read-only and senders insist."""


class DiskFaults:
    """Faults of the disk that a collector has its data on."""

    def __init__(self, struck: Struck, disk: Disk) -> None:
        self.taken_back: list[int] = []
        """Traces that each loss of what was not synced took from the store. A replay finds them again."""
        self.while_read_only: list[Usage] = []
        """What the collector took each time."""
        self._struck = struck
        self._disk = disk

    def fill_the_disk(self) -> None:
        """Leave less than a request's room for a while."""
        self._disk.fill(self._struck.random.choice((0, 4096, 65_536)))
        self._struck.wait()
        self._disk.make_room()

    def kill_on_a_full_disk(self) -> None:
        """Kill it while its disk is full."""
        self._disk.fill()
        self._struck.wait()
        self._struck.process.stop(SIGKILL)
        self._disk.make_room()
        self._struck.start()

    def turn_read_only(self) -> None:
        """Let the disk turn read-only while it is written to; then end the collector, repair the disk, and start it."""
        struck = self._struck
        # Of a sync that is under way at an error, ext4 may say that it was done (docs/reliability-of-the-collector.md).
        with struck.standing_still():
            stored = self._stored()
            self._disk.turn_read_only()
        eventually(lambda: struck.readiness() != 200, within=TOLD_WITHIN)
        time.sleep(ON_ITS_WAY)
        taken, before = struck.load.taken, Usage.of(struck.process.pid)
        time.sleep(struck.random.uniform(2.0, 6.0))
        used = Usage.of(struck.process.pid).since(before)
        self.while_read_only.append(used)
        if struck.load.taken != taken:
            struck.complaints.append("it acknowledged what it could not write")
        if struck.readiness() != 503:
            struck.complaints.append("it was not unready though it could not write")
        if used.cores > MOST_CORES or used.mebibytes > MOST_MEBIBYTES:
            struck.complaints.append(f"it took {used} while it could not write")
        struck.stop()
        self._disk.repair()
        self.taken_back.append(stored - self._stored())
        struck.start()

    def lose_power(self) -> None:
        """Let all that was not synced be lost with the machine."""
        struck = self._struck
        with struck.standing_still():
            deleted, stored = frozenset(struck.person.receipts), self._stored()
            self._disk.lose_power()
            struck.process.send_signal(SIGKILL)
        struck.process.stop(SIGKILL)
        self._disk.repair()
        self.taken_back.append(stored - self._stored())
        if left := left_in(struck.data_dir, deleted):
            struck.complaints.append(f"files hold what was deleted before: {sorted(left)}")
        struck.start()

    def faults(self) -> dict[Callable[[], None], int]:
        """The faults, with their weights."""
        return {self.fill_the_disk: 4, self.kill_on_a_full_disk: 2, self.turn_read_only: 3, self.lose_power: 5}

    def _stored(self) -> int:
        count: int = self._struck.look("SELECT count(*) FROM traces")[0][0]
        return count
