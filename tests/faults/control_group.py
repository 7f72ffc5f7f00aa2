"""A control group with a limit of memory, in which the kernel kills who takes more. As root on Linux."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.eventually import eventually

_ROOT = Path("/sys/fs/cgroup")


class ControlGroup:
    """A group below that of this process, of version 1 or 2."""

    def __init__(self, name: str, limit: int) -> None:
        """Set its limit to so many bytes. Raises OSError where that is not possible."""
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        groups = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
        self._is_first_version = "memory" in groups
        above = _ROOT / "memory" if self._is_first_version else _ROOT
        self.folder = above / groups["memory" if self._is_first_version else ""].lstrip("/") / name
        self.folder.mkdir()
        try:
            limits = "memory.limit_in_bytes" if self._is_first_version else "memory.max"
            (self.folder / limits).write_text(str(limit))
        except OSError:
            self.folder.rmdir()
            raise

    def command(self, *command: str) -> Sequence[str]:
        """Return a command that runs another one in this group."""
        return ("/bin/sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *command)

    @property
    def kills(self) -> int:
        """How many processes of the group the kernel has killed for want of memory."""
        file = "memory.oom_control" if self._is_first_version else "memory.events"
        return int(dict(line.split() for line in (self.folder / file).read_text().splitlines())["oom_kill"])

    def close(self) -> None:
        """Remove the group, once its processes have ended."""

        def removed() -> bool:
            with suppress(OSError):
                self.folder.rmdir()
            return not self.folder.exists()

        eventually(removed)


@contextmanager
def control_group(name: str, limit: int) -> Iterator[ControlGroup | None]:
    """Yield a group with this limit in bytes, and remove it afterwards; None where that is not possible here."""
    try:
        group = ControlGroup(name, limit)
    except (OSError, KeyError):
        yield None
        return
    try:
        yield group
    finally:
        group.close()
