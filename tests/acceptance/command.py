"""A stand-in for `agenteval` whose collectors are over Kafka and PostgreSQL, whoever starts them as if they were not.

    python -m tests.acceptance.command SHAPE BROKER DATABASE_URL collector --data-dir FOLDER ...

Each data folder has topics and a database of its own. SHAPE is `all`, one process that does everything, or `roles`: a
process for each part of the work, behind the addresses that were asked for. They start, end and die together.
"""

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

SCRIPT = str(Path(sys.executable).parent / "agenteval")
ROLES = ("serve", "receive", "assemble", "assemble", "evaluate", "evaluate")
"""The processes of the shape `roles`; the first makes topics and tables."""
DOORS = {"serve": ("web",), "receive": ("grpc", "http")}
"""The addresses at which a role stands for all."""
PORTS = ("grpc", "http", "web")


@dataclass(frozen=True)
class Place:
    """Where the collectors of a data folder have their log and their store."""

    broker: str
    url: str
    name: str

    @classmethod
    def of(cls, folder: str, broker: str, url: str) -> "Place":
        """Return the place of a folder; its database is made where it is missing."""
        name = "of_" + hashlib.sha256(folder.encode()).hexdigest()[:16]
        _make_database(url, name)
        return cls(broker, url, name)

    @property
    def environ(self) -> Mapping[str, str]:
        return {
            "AGENTEVAL_LOG__URL": f"kafka://{self.broker}/{self.name}",
            "AGENTEVAL_LOG__PARTITIONS": "4",
            "AGENTEVAL_STORE__URL": f"{self.url.rpartition('/')[0]}/{self.name}",
        }


def _make_database(url: str, name: str) -> None:
    import psycopg  # noqa: PLC0415 - an extra
    from psycopg.errors import DuplicateDatabase  # noqa: PLC0415

    connecting = psycopg.connect(url.replace("+psycopg", ""), autocommit=True, connect_timeout=10)
    with connecting as connection, suppress(DuplicateDatabase):
        connection.execute(f'CREATE DATABASE "{name}"'.encode())


class Together:
    """Processes of all roles, as one."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """`arguments` are those of one collector, each with its value behind it."""
        self._given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        self._environ = environ
        self._members: dict[int, str] = {}
        self._ends = False

    def run(self) -> int:
        """Start all, say their addresses, and return the exit status once they have ended."""
        signal.signal(signal.SIGTERM, self._end)
        addresses = self._started([ROLES[0]]) | self._started(ROLES[1:])
        print(json.dumps(addresses), flush=True)
        status = 0
        while self._members:
            pid, ended = os.wait()
            role, code = self._members.pop(pid), os.waitstatus_to_exitcode(ended)
            if code != 0 or not self._ends:
                print(f"the one that does {role} has ended with {code}", file=sys.stderr, flush=True)
                status = status or abs(code) or 1
                self._end()
        return status

    def _started(self, roles: Sequence[str]) -> dict[str, str]:
        processes = {role: self._start(role) for role in roles if roles.count(role) == 1}
        processes |= {f"{role}-{n}": self._start(role, n) for n, role in enumerate(roles) if roles.count(role) > 1}
        addresses: dict[str, str] = {}
        for role, process in processes.items():
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                self._end()
                raise SystemExit(f"the one that does {role} has not started")
            addresses |= {name: address for name, address in json.loads(line).items() if name in DOORS.get(role, ())}
        return addresses

    def _start(self, role: str, number: int = 0) -> "subprocess.Popen[str]":
        folder = Path(self._given["--data-dir"], f"{role}-{number}")
        folder.mkdir(exist_ok=True)
        given = {**self._given, "--data-dir": str(folder), "--role": role}
        for port in PORTS:
            if port not in DOORS.get(role, ()):
                given[f"--{port}-address"] = "127.0.0.1:0"
        # Whoever kills this process kills them, too.
        command = ["setpriv", "--pdeathsig", "KILL", SCRIPT, "collector", *itertools.chain(*given.items())]
        process = subprocess.Popen(command, env={**os.environ, **self._environ}, stdout=subprocess.PIPE, text=True)
        self._members[process.pid] = role
        return process

    def _end(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        self._ends = True
        for pid in self._members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def main() -> NoReturn:
    """Run as a script."""
    shape, broker, url, *arguments = sys.argv[1:]
    if arguments[:1] != ["collector"]:
        os.execv(SCRIPT, [SCRIPT, *arguments])
    folder = arguments[arguments.index("--data-dir") + 1]
    environ = Place.of(folder, broker, url).environ
    if shape == "all":
        os.execve(SCRIPT, [SCRIPT, *arguments], {**os.environ, **environ})
    sys.exit(Together(arguments[1:], environ).run())


if __name__ == "__main__":
    main()
