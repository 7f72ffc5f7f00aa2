"""A person beside the senders: labels traces, has every other session deleted, and knows what was acknowledged."""

import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

from otel_agenteval.doctor.web import NoWebAnswer, Web
from tests.faults.beside import running
from tests.faults.workload import AGAIN, Addresses, parts, send_over_http
from tests.support.kept_bytes import kept_bytes
from tests.support.otlp import trace_id

FIRST = 10_000_001
"""The number of the person's first trace: of eight digits, as no other."""
_SAID = re.compile(rb"question (1\d{7})\D")


class Person:
    """Goes on wherever the collector is. The traces are by number."""

    def __init__(self, addresses: Addresses) -> None:
        self.labels: dict[int, float] = {}
        """The labels that were acknowledged, of traces that are not deleted."""
        self.receipts: dict[int, str] = {}
        """The ids of deletions of which the receipt said that they are done."""
        self.forgotten: list[str] = []
        """The ids of deletions that were acknowledged, and unknown later."""
        self._addresses = addresses
        self._done = threading.Event()

    def running(self) -> AbstractContextManager[None]:
        """Run beside a block."""
        return running(self._work, self._done)

    def _work(self) -> None:
        for number in count(FIRST):
            for part in parts(number, session=f"person-{number}"):
                self._insist(lambda part=part: send_over_http(self._addresses(), part))  # type: ignore[misc]
            value = number % 3 / 2
            label = {"trace_id": trace_id(number).hex(), "name": "loop_detection", "value": value, "author": "somebody"}
            is_labelled = self._insist(lambda label=label: self._post("labels", label))  # type: ignore[misc]
            if number % 2:
                self._delete(number)
            elif is_labelled:
                self.labels[number] = value
            if self._done.wait(AGAIN):
                return

    def _delete(self, number: int) -> None:
        wanted = {"session_id": f"person-{number}"}
        deletion = self._insist(lambda: self._post("delete", wanted))
        while deletion is not None and deletion["done_at"] is None:
            asked = {"deletion_id": deletion["deletion_id"]}
            deletion = self._insist(lambda asked=asked: self._post("delete", asked))  # type: ignore[misc]
        if deletion is not None:
            self.receipts[number] = deletion["deletion_id"]

    def _insist(self, attempt: Callable[[], Any]) -> Any:
        """Return what an attempt gives, once it gives something; None at the end."""
        while not self._done.is_set():
            if given := attempt():
                return given
            self._done.wait(AGAIN)
        return None

    def _post(self, what: str, document: dict[str, Any]) -> Any:
        try:
            status, answer = Web(f"http://{self._addresses()['web']}").post(f"/api/v1/{what}", document)
        except NoWebAnswer:
            return None
        if status == 404 and "deletion_id" in document:
            self.forgotten.append(document["deletion_id"])
        return answer if status == 200 else None


def left_in(folder: Path, numbers: frozenset[int]) -> set[int]:
    """Return those of the person's traces of which any file in the folder holds the question."""
    found = (_SAID.finditer(kept_bytes(path)) for path in folder.iterdir() if path.is_file())
    return {int(each[1]) for of_file in found for each in of_file} & numbers
