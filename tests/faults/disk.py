"""A disk to break: an ext4 file system in a sparse file, mounted through a loop device. As root on Linux."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.eventually import eventually

SIZE = 4 << 30
"""Bytes of the file system. Its file takes what was written."""
_SHUTDOWN = 0x8004587D
"""The ioctl `EXT4_IOC_SHUTDOWN`."""
_WITHOUT_FLUSH = (2).to_bytes(4, "little")
"""What is in memory only, of the journal too, is not written any more."""


class Disk:
    """A file system at `folder`, mounted until it is closed."""

    def __init__(self, image: Path, folder: Path) -> None:
        """Raises OSError or CalledProcessError where that is not possible."""
        self.folder = folder
        self._image = image
        self._filler = folder / "filler"
        folder.mkdir()
        with image.open("wb") as file:
            file.truncate(SIZE)
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        self._mount()

    def close(self) -> None:
        """Unmount it, whoever uses it still. The loop device goes with the mount."""
        if self.folder.is_mount():
            _run("umount", "--lazy", str(self.folder))

    def fill(self, left: int = 0) -> None:
        """Leave so many bytes. Others write meanwhile."""

        def filled() -> bool:
            size = self._filler.stat().st_size + os.statvfs(self.folder).f_bavail * 4096 - left
            try:
                with self._filler.open("ab") as file:
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError:
                return False
            return True

        self._filler.touch()
        eventually(filled)

    def make_room(self) -> None:
        """End what `fill` began."""
        self._filler.unlink()

    def turn_read_only(self) -> None:
        """Let the kernel find an error: it writes nothing more, though files are open for writing."""
        device = os.stat(self.folder).st_dev
        name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("by the history checker")

    def lose_power(self) -> None:
        """Lose all that was not synced: what is in the kernel's memory only is never written, as at a power failure."""
        opened = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, _SHUTDOWN, _WITHOUT_FLUSH)
        finally:
            os.close(opened)

    def repair(self) -> None:
        """Unmount it, replay its journal, and mount it again, as a machine that starts does. Nobody may use it."""
        eventually(lambda: subprocess.run(["umount", str(self.folder)], check=False).returncode == 0)
        checked = subprocess.run(["e2fsck", "-p", str(self._image)], check=False, capture_output=True, text=True)
        assert checked.returncode in (0, 1), checked  # 1: errors were corrected
        self._mount()

    def _mount(self) -> None:
        # The kernel writes nothing by itself within the hour: what is on the disk was synced.
        options = "loop,errors=remount-ro,commit=3600"
        _run("mount", "-t", "ext4", "-o", options, str(self._image), str(self.folder))


@contextmanager
def disk_in(folder: Path) -> Iterator[Disk | None]:
    """Yield a disk in this folder, and unmount it afterwards; None where that is not possible here."""
    try:
        disk = Disk(folder / "disk.img", folder / "disk")
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield disk
    finally:
        disk.close()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
