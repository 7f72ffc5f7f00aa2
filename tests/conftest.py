"""What holds for all tests: how inputs are drawn, and that the process ends."""

import faulthandler
import gc
import logging
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import postgres
from tests.support.databases import stores_on
from tests.support.kafka import broker, jars

if TYPE_CHECKING:
    from tests.support.roles import Start

# On machines that others use as well, how long it takes to draw an input says nothing.
settings.register_profile(
    "thorough",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # In continuous integration the same inputs every time: a change fails for what it changed. Elsewhere new ones.
    derandomize="CI" in os.environ,
)
# Fewer inputs where tests are run often, each time with new ones; `make fuzz` draws many.
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=20)
settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Take away the handlers that a command has set up: what others log later would go to a stream that is closed."""
    root = logging.getLogger()
    before, level = [*root.handlers], root.level
    yield
    for handler in {*root.handlers} - {*before}:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage meanwhile, nor later among what is found: all of it stays, and each look at it takes long."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Collect no garbage while a failure is described, or the failure of one test may be the end of them all.

    To describe it, pytest parses the test's module. If garbage is collected meanwhile and something in it fails (where
    warnings are errors, an unclosed file is enough), the hook for such failures formats a traceback, and that parses a
    line. Python 3.11 counts the depth of both as one: a SystemError, "AST constructor recursion depth mismatch", ends
    pytest as an error of its own (pytest-dev/pytest#10763).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what holds of every store on each database."""
    if metafunc.definition.get_closest_marker("databases") and not metafunc.definition.get_closest_marker("sqlite"):
        databases = ["sqlite", pytest.param("postgresql", marks=pytest.mark.distributed)]
        metafunc.parametrize("_database", databases, indirect=True)


@pytest.fixture(autouse=True)
def _database(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stores are on this database: SQLite, unless a test asks for another one."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield
        return
    with stores_on(request.getfixturevalue("postgresql")):
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgres.Server]:
    """A server of PostgreSQL for all tests of this process."""
    pytest.importorskip("psycopg", reason="needs the extra [postgres]")
    try:
        postgres.program("initdb")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    with postgres.server() as server:
        server.execute("CREATE EXTENSION pg_trgm")
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[broker.Broker]:
    """A broker of Kafka for all tests of this process: each takes topics of its own."""
    pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")
    try:
        jars.java(), jars.jars()
    except jars.Missing as error:
        # Continuous integration has it: there, nobody would see that these tests do not run.
        (pytest.fail if "CI" in os.environ else pytest.skip)(str(error))
    with broker.broker() as started:
        yield started


@pytest.fixture
def start_role(tmp_path: Path, kafka: broker.Broker, postgresql: postgres.Server) -> Iterator["Start"]:
    """What starts a collector of a role; all of a test share their topics and a database."""
    from tests.support.roles import fleet  # noqa: PLC0415 - the collector is loaded by those who need one

    with fleet(tmp_path, kafka, postgresql) as start:
        yield start


_ENDS_WITHIN = 60.0
"""Seconds from the last test to the end of the process, with what the SDKs still send at exit."""


_ROOM = 4 << 30
"""Bytes that must be free in memory for the folders of tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of tests into memory where there is room: nothing waits for a disk, and no test needs one."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Where a thread keeps the process from ending, show where it stands and end with an error."""
    if hasattr(config, "workerinput"):
        return  # A worker lives until all others have finished, and is ended from outside.
    faulthandler.dump_traceback_later(_ENDS_WITHIN, exit=True, file=sys.__stderr__ or sys.stderr)
