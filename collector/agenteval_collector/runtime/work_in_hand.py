"""Note which input is being worked on, so that the next process knows on what this one died.

A note must outlive the process, not the machine: a power failure is no fault of the input. So a note is one write to a
file, which the system keeps when a process is killed, without a sync.
"""

import logging
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

FILE: Final = "in-hand"
"""The file in a data folder."""
MOST_SUSPECTS: Final = 1000
"""Pieces of input that are suspected at the same time. Further ones are suspected when the process dies on them
again."""
ALONE_WITHIN: Final = 30.0
"""Seconds that work waits for its turn. After that it goes on beside other work."""
MOST_NOTED: Final = 100
"""Pieces of input of one note; work takes fewer at a time."""
_SUSPECTS: Final = 256 * 1024
"""Bytes at the beginning of the file for the suspects. Behind them each piece of work under way has a page."""
_PAGE: Final = 4096
"""Bytes of a note. The system writes a page whole or not at all."""
_OVER: Final = b"\n"


class WorkInput(NamedTuple):
    """A piece of input: its tenant, its kind, and its key among those of that kind. None of them holds white space."""

    tenant: str
    kind: str
    key: str


class WorkInHand:
    """The input that the process works on now, and that on which it has died. Thread-safe.

    Input that was in hand when the process died is suspected. Suspected input is worked on alone, while no other work
    with a note goes on: so if the process dies again, it is known on what. A death while nothing is in hand says
    nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._file: int | None = None
        self._deaths: dict[WorkInput, int] = {}
        self._changed = threading.Condition()
        self._under_way = 0
        self._is_alone = False
        self._is_refused = False
        self._want_alone = 0
        self._free_pages: list[int] = []
        self._pages = 0

    def open(self) -> None:
        """Take over what an earlier process has noted. The folder must belong to this process.

        Where the disk refuses, work goes on without notes.
        """
        try:
            self._deaths = _deaths_in(self._path.read_bytes() if self._path.exists() else b"")
            new = self._path.with_name(f"{FILE}.new")
            self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._write_suspects()
            # From here on the old notes are gone: a death counts once.
            new.replace(self._path)
        except OSError as error:
            self._refused(error)

    def deaths(self, tenant: str) -> Mapping[WorkInput, int]:
        """Return how often the process has died on suspected input of a tenant."""
        with self._changed:
            return {suspect: deaths for suspect, deaths in self._deaths.items() if suspect.tenant == tenant}

    def is_suspected(self, tenant: str, kind: str, key: str) -> bool:
        """Return whether the process has died on this input, and has not worked it off since."""
        return WorkInput(tenant, kind, key) in self._deaths

    def forget(self, suspects: Collection[WorkInput]) -> None:
        """Suspect this input no longer."""
        with self._changed:
            for suspect in suspects:
                self._deaths.pop(suspect, None)
            self._write_suspects()

    @contextmanager
    def hold(self, tenant: str, kind: str, keys: Sequence[str], *, alone: bool = False) -> Iterator[None]:
        """Note this input until the end of the `with`. It was worked off if nothing is raised.

        `alone`, or suspected, it waits until no other work is under way, and other work waits meanwhile.
        """
        suspects = [WorkInput(tenant, kind, key) for key in keys] if self._deaths else []
        suspects = [suspect for suspect in suspects if suspect in self._deaths]
        alone = alone or bool(suspects)
        with self._changed:
            self._await_turn(alone)
            self._under_way += 1
            self._is_alone |= alone
            page = self._free_pages.pop() if self._free_pages else self._new_page()
            self._note(page, f"{tenant} {kind} {' '.join(keys[:MOST_NOTED])}\n".encode())
        try:
            yield
            if suspects:
                self.forget(suspects)
        finally:
            with self._changed:
                self._note(page, _OVER)
                self._free_pages.append(page)
                self._under_way -= 1
                self._is_alone &= not alone
                self._changed.notify_all()

    def close(self) -> None:
        """Forget everything: a process that ends by itself did not die. Safe twice."""
        with self._changed:
            if self._file is None:
                return
            os.close(self._file)
            self._file = None
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                self._refused(error)

    def _await_turn(self, alone: bool) -> None:
        until = time.monotonic() + ALONE_WITHIN
        self._want_alone += alone
        # Who waits to be alone goes first: between two others there may never be a moment without work.
        while self._is_alone or (self._under_way if alone else self._want_alone):
            left = until - time.monotonic()
            if left <= 0:
                break
            self._changed.wait(left)
        self._want_alone -= alone

    def _new_page(self) -> int:
        self._pages += 1
        return _SUSPECTS + (self._pages - 1) * _PAGE

    def _write_suspects(self) -> None:
        lines = [" ".join((str(deaths), *suspect)) for suspect, deaths in self._deaths.items()]
        self._note(0, "\n".join((*lines, "", "")).encode())

    def _note(self, where: int, note: bytes) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file, note, where)
        except OSError as error:
            self._refused(error)

    def _refused(self, error: OSError) -> None:
        # Once: a full disk must not be filled with complaints about it.
        if not self._is_refused:
            logger.error("what is worked on is not noted in %s: %s", self._path, error.strerror)
        self._is_refused = True


def _deaths_in(content: bytes) -> dict[WorkInput, int]:
    """Return the deaths on each piece of input, with the one that ended the process of this file."""
    deaths: dict[WorkInput, int] = {}
    for line in content[:_SUSPECTS].decode(errors="replace").split("\n"):
        match line.split():
            case [number, tenant, kind, key] if number.isdecimal():
                deaths[WorkInput(tenant, kind, key)] = int(number)
            case _:
                break
    in_hand = []
    for start in range(_SUSPECTS, len(content), _PAGE):
        note, end, _ = content[start : start + _PAGE].partition(b"\n")
        match note.decode(errors="replace").split() if end else ():
            case [tenant, kind, *keys]:
                in_hand += [WorkInput(tenant, kind, key) for key in keys]
    for one in in_hand:
        if one in deaths or len(deaths) < MOST_SUSPECTS:
            deaths[one] = deaths.get(one, 0) + 1
    if in_hand:
        logger.warning("the last process died while it worked on %d pieces of input; each is tried alone", len(in_hand))
    return deaths
