"""A real PostgreSQL server in a temporary folder, on a free port."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tests.support.ports import free_port

USER, PASSWORD, DATABASE = "postgres", "pa55-w0rd", "postgres"
_SETTINGS = (
    "unix_socket_directories=",
    "max_connections=200",
    # A test's folder is in memory, and gone after it: what a server has committed it survives a kill of the server.
    "fsync=off",
    "autovacuum=off",
)


def program(name: str) -> str:
    """The path of a program of the server; Debian keeps them by version, beside the path. Raises FileNotFoundError."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
    places = [os.environ["PATH"], *map(str, reversed(folders))]
    found = next((found for each in places if (found := shutil.which(name, path=each))), None)
    if found is None:
        raise FileNotFoundError(f"PostgreSQL's {name} is not installed")
    return found


@dataclass
class Server:
    """A server that may be stopped and started again; `url` is that of its database, for a superuser. `host` is the
    address of this machine where it is called."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    settings: Sequence[str] = ()
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{USER}:{PASSWORD}@{self.host}:{self.port}/{DATABASE}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def _where(self) -> Sequence[str]:
        return f"port={self.port}", f"listen_addresses={self.host}"

    def start(self) -> None:
        """Return once it answers."""
        settings = [part for each in (*self._where, *_SETTINGS, *self.settings) for part in ("-c", each)]
        with self.log.open("ab") as log:
            command = [program("postgres"), "-D", str(self.folder / "data"), *settings]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **_as_somebody_else())
        eventually(self._answers, within=60)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all sessions and stops, SIGQUIT stops as a crash does."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def execute(self, sql: str, *values: Any) -> list[Any]:
        """Run SQL as the superuser; return its rows."""
        import psycopg  # noqa: PLC0415 - the suite runs without it, too

        with psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        import psycopg  # noqa: PLC0415

        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            return bool(self.execute("SELECT 1"))
        except psycopg.OperationalError:
            return False


@contextmanager
def server(folder: Path | None = None, settings: Sequence[str] = (), host: str = "127.0.0.1") -> Iterator[Server]:
    """A new server in a new folder below `folder`, else in memory; it is gone afterwards, with all its data."""
    memory = Path("/dev/shm")
    # Not a folder of pytest's: nobody but their owner looks into those, and the server may be somebody else.
    below = folder or (memory if memory.is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="agenteval-pg-", dir=below) as name:
        made = Server(Path(name), host, settings=settings)
        somebody = _as_somebody_else()
        if somebody:
            os.chown(name, somebody["user"], somebody["group"])
        password = made.folder / "password"
        password.write_text(PASSWORD)
        command = [program("initdb"), "-D", str(made.folder / "data"), f"--username={USER}", f"--pwfile={password}"]
        # With the rules of a language, as servers have them: what sorts by these would show.
        command += [
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=icu",
            "--icu-locale=en-US",
            "--no-sync",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120, **somebody)
        with (made.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        try:
            made.start()
            yield made
        finally:
            made.stop()


def _as_somebody_else() -> dict[str, Any]:
    """Arguments for a process that root starts: the server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    names = [each for each in ("postgres", "nobody") if each in {user.pw_name for user in pwd.getpwall()}]
    somebody = pwd.getpwnam(names[0])
    return {"user": somebody.pw_uid, "group": somebody.pw_gid, "extra_groups": []}
