"""Several collectors that share the work, a real broker and a real database: and the faults that strike them."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM
from typing import Any, TypeVar

from tests.faults.injected import STOPS_WITHIN
from tests.faults.network import Cable, Namespace, Network
from tests.faults.workload import Workload
from tests.support.crashing import SCRIPT, CollectorProcess
from tests.support.kafka.broker import Broker
from tests.support.postgres import Server

T = TypeVar("T")

ROLES = {"receive": 2, "assemble": 2, "evaluate": 2, "serve": 1}
"""Processes of each role."""
IN_NAMESPACES = ("assemble", "evaluate")
"""Roles whose processes can be cut off: nobody calls them."""
PARTITIONS = 4
LOST_AFTER = 10.0
"""Seconds of silence after which the broker gives a process's partitions to others."""
PAUSE = 0.5
"""Seconds between two traces of a sender: a machine that runs all of this has little left."""
JOINING = 2
"""Processes that join, and leave, in a burst."""
CUT_OFF = (5.0, 40.0)
"""Seconds that a worker is cut off, at least and at most: some are back before others have its partitions."""

AWAY = ("cannot be used now", "cannot be read", "cannot be reached")
"""What a process says that ends because a server does not answer."""

_prefixes = itertools.count()


class Member:
    """A collector of a role, and where it runs: in a namespace, if there is one."""

    def __init__(self, role: str, folder: Path, environ: Mapping[str, str], namespace: Namespace | None = None) -> None:
        self.role = role
        self._environ = environ
        folder.mkdir()
        self.said = folder / "stderr"
        self.namespace = namespace
        self.process = self._begun(
            lambda: CollectorProcess(
                folder,
                environ,
                agenteval=(*(namespace.inside if namespace else ()), str(SCRIPT)),
                options=("--role", role),
                stderr=self.said,
            )
        )

    def start(self) -> None:
        """Start it again."""
        self._begun(lambda: self.process.start(self._environ))

    def _begun(self, begin: Callable[[], T]) -> T:
        """Start it; and once more, as whoever watches over processes does, where it cannot reach a server in time and
        says so."""
        for _ in range(2):
            try:
                return begin()
            except AssertionError:
                said = self.said.read_text()[-500:]
                if not any(each in said for each in AWAY):
                    raise
                print(f"  one that does {self.role} did not reach a server at its start", flush=True)
        return begin()


class Fleet:
    """Collectors to strike. `environ` is theirs, on top of where their log and their store are. Who assembles and who
    evaluates reaches these by the network, where there is one."""

    def __init__(
        self,
        folder: Path,
        broker: Broker,
        server: Server,
        environ: Mapping[str, str],
        random: Random,
        network: Network | None = None,
    ) -> None:
        self.random = random
        self.broker = broker
        self.server = server
        self.load = Workload(self._receiver, PAUSE)
        self.complaints: list[str] = []
        """What they must not do."""
        self._environ = {
            **environ,
            "AGENTEVAL_LOG__URL": f"kafka://{broker.address}/faults{next(_prefixes)}",
            "AGENTEVAL_LOG__PARTITIONS": str(PARTITIONS),
            "AGENTEVAL_STORE__URL": server.url,
        }
        self._folders = (folder / str(number) for number in itertools.count())
        self._turns = itertools.count()
        self._lock = threading.Lock()
        self._network = network
        # The first makes the topics and the tables, so that a fault of the others is no race for these.
        self.members = [self._member("serve")]
        rest = [role for role, count in ROLES.items() for _ in range(count) if role != "serve"]
        with ThreadPoolExecutor(2) as pool:
            self.members += pool.map(self._member, rest)

    def close(self) -> None:
        for member in self.members:
            member.process.stop(SIGKILL)

    def stop(self) -> None:
        """Stop all of them as an operator does."""
        for member in self.members:
            self._leave(member)

    def look(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows of the store. Raises psycopg.OperationalError while it is away."""
        import psycopg  # noqa: PLC0415 - the suite runs without it, too

        url = self.server.url.replace("+psycopg", "")
        with psycopg.connect(url, connect_timeout=5, options="-c search_path=agenteval") as connection:
            return connection.execute(query.encode()).fetchall()

    def kill(self) -> None:
        """Kill one of them, and start it again."""
        member = self.random.choice(self.members)
        member.process.stop(SIGKILL)
        member.start()

    def kill_an_assembler(self) -> None:
        """Kill an assembler, and start it again only when others have its partitions."""
        self._kill_for_long("assemble")

    def kill_an_evaluator(self) -> None:
        """Kill an evaluator, and start it again only when others have its partitions."""
        self._kill_for_long("evaluate")

    def kill_all_of_a_role(self) -> None:
        """Kill all of a role at once, and start them again."""
        struck = self._of(self.random.choice([*ROLES]))
        for member in struck:
            member.process.stop(SIGKILL)
        with ThreadPoolExecutor(len(struck)) as pool:
            list(pool.map(Member.start, struck))

    def end(self) -> None:
        """End one of them as an operator does, and start it again."""
        member = self.random.choice(self.members)
        self._leave(member)
        member.start()

    def kill_the_broker(self) -> None:
        """Kill the broker; it is back after a while."""
        self.broker.kill()
        self._wait()
        self.broker.start()

    def restart_the_broker(self) -> None:
        """Stop the broker as an operator does, and start it."""
        self.broker.restart()

    def crash_the_database(self) -> None:
        """Let the database end as in a crash; it is back after a while."""
        self.server.stop(SIGQUIT)
        self._wait()
        self.server.start()

    def suspend_an_evaluator(self) -> None:
        """Let an evaluator stand still until others have its partitions; it does not know that when it goes on."""
        self._suspend("evaluate")

    def suspend_an_assembler(self) -> None:
        """The same with an assembler."""
        self._suspend("assemble")

    def cut_off_from_the_broker(self) -> None:
        """Let a worker and the broker not hear each other for a while; the database is there for both."""
        namespace = self._some_namespace()
        with _pulled(namespace.to_broker):
            self._wait_for_long()

    def cut_off_from_the_database(self) -> None:
        """Let a worker and the database not hear each other: it keeps its partitions, and cannot commit."""
        namespace = self._some_namespace()
        with _pulled(namespace.to_database):
            self._wait_for_long()

    def cut_off_from_both(self) -> None:
        """Let a worker hear nobody. The database is the first to go, so that a commit may be under way, and the first
        to be back, so that it may end when others have the partitions."""
        namespace = self._some_namespace()
        with _pulled(namespace.to_database):
            time.sleep(1.0)
            namespace.to_broker.pull()
            self._wait_for_long()
        time.sleep(1.0)
        namespace.to_broker.plug()

    def join_and_leave(self) -> None:
        """Let some join in a burst, and leave again: one as an operator has it leave, one by a kill."""
        role = self.random.choice(["assemble", "evaluate"])
        with ThreadPoolExecutor(JOINING) as pool:
            joined = list(pool.map(self._member, [role] * JOINING))
        self._wait()
        for member, is_killed in zip(joined, itertools.cycle([True, False]), strict=False):
            if is_killed:
                member.process.stop(SIGKILL)
            else:
                self._leave(member)

    def faults(self) -> dict[Callable[[], None], int]:
        """All faults, with their weights."""
        of_network = {
            self.cut_off_from_the_broker: 3,
            self.cut_off_from_the_database: 3,
            self.cut_off_from_both: 4,
        }
        return {
            **(of_network if self._network else {}),
            self.kill: 6,
            self.kill_an_assembler: 2,
            self.kill_an_evaluator: 3,
            self.kill_all_of_a_role: 2,
            self.end: 2,
            self.kill_the_broker: 2,
            self.restart_the_broker: 1,
            self.crash_the_database: 3,
            self.suspend_an_evaluator: 3,
            self.suspend_an_assembler: 2,
            self.join_and_leave: 2,
        }

    def _receiver(self) -> Mapping[str, str]:
        """Return the addresses of one receiver after the other: the parts of a trace come through different ones."""
        receivers = self._of("receive")
        with self._lock:
            return receivers[next(self._turns) % len(receivers)].process.addresses

    def _of(self, role: str) -> list[Member]:
        return [each for each in self.members if each.role == role]

    def _member(self, role: str) -> Member:
        with self._lock:
            folder = next(self._folders)
            namespace = self._network.namespace() if self._network and role in IN_NAMESPACES else None
        return Member(role, folder, self._environ, namespace)

    def _some_namespace(self) -> Namespace:
        """Return the namespace of a worker."""
        return self.random.choice([each.namespace for each in self.members if each.namespace])

    def _leave(self, member: Member) -> None:
        if not member.process.runs:
            self.complaints.append(f"one that does {member.role} ended by itself")
        elif (code := member.process.stop(SIGTERM, within=STOPS_WITHIN)) != 0:
            self.complaints.append(f"one that does {member.role} ended with {code} at a SIGTERM")

    def _kill_for_long(self, role: str) -> None:
        member = self.random.choice(self._of(role))
        member.process.stop(SIGKILL)
        time.sleep(LOST_AFTER + 2.0)
        member.start()

    def _suspend(self, role: str) -> None:
        with _standing_still(self.random.choice(self._of(role)).process):
            time.sleep(LOST_AFTER + self.random.uniform(2.0, 8.0))

    def _wait_for_long(self) -> None:
        time.sleep(self.random.uniform(*CUT_OFF))

    def _wait(self) -> None:
        """Let a fault last for a while."""
        time.sleep(self.random.uniform(0.3, 4.0))


@contextmanager
def _standing_still(process: CollectorProcess) -> Iterator[None]:
    process.send_signal(SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(SIGCONT)


@contextmanager
def _pulled(cable: Cable) -> Iterator[None]:
    cable.pull()
    try:
        yield
    finally:
        cable.plug()
