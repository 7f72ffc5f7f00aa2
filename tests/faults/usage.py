"""What a process takes of the machine, as Linux tells."""

import os
import re
import time
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """Of a process: at a time in seconds what it has used, or between two times."""

    seconds: float
    cpu: float
    mebibytes: float

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Return what a process has used until now."""
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        kibibytes = int(resident[1]) if resident else 0
        return cls(time.monotonic(), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), kibibytes / 1024)

    def since(self, before: "Usage") -> "Usage":
        """Return what was used since then."""
        return Usage(*(mine - its for mine, its in zip(self, before, strict=True)))

    @property
    def cores(self) -> float:
        """Cores that it kept busy."""
        return self.cpu / self.seconds
