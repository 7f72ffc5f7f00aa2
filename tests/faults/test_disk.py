"""The disk breaks as it should: else the history checker proves nothing."""

import os

import pytest

from tests.faults.disk import Disk

pytestmark = pytest.mark.slow


def test_what_was_not_synced_is_gone_after_a_power_failure(disk: Disk) -> None:
    synced = disk.folder / "synced"
    with synced.open("w+b", buffering=0) as file:
        file.write(b"before")
        os.fsync(file.fileno())
        file.seek(0)
        file.write(b"behind")
        (disk.folder / "new").write_text("not synced")
        (disk.folder / "synced").rename(disk.folder / "renamed")
        disk.lose_power()
    disk.repair()
    assert synced.read_bytes() == b"before"
    assert {path.name for path in disk.folder.iterdir()} == {"synced", "lost+found"}


def test_a_disk_that_turned_read_only_takes_nothing_from_who_has_a_file_open(disk: Disk) -> None:
    with (disk.folder / "file").open("w+b", buffering=0) as file:
        file.write(b"before")
        os.fsync(file.fileno())
        disk.turn_read_only()
        with pytest.raises(OSError, match="Read-only file system"):
            file.write(b"behind")
    disk.repair()
    assert (disk.folder / "file").read_bytes() == b"before"
    (disk.folder / "file").write_bytes(b"after")


def test_a_disk_is_filled_and_has_room_again(disk: Disk) -> None:
    disk.fill(left=65_536)
    with pytest.raises(OSError, match="No space left"):
        (disk.folder / "large").write_bytes(bytes(1 << 20))
    disk.make_room()
    (disk.folder / "large").write_bytes(bytes(1 << 20))
