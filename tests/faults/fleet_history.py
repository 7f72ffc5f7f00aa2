"""The history checker for collectors that share the work: random faults strike them, their broker and their database.

    python -m tests.faults.fleet_history --faults 100 [--seed N] [--folder FOLDER]

Prints every fault as it strikes, and at the end one JSON object; ends with 1 where something was lost or double.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from signal import SIGTERM, signal
from tempfile import TemporaryDirectory

from tests.faults.events import event_backend
from tests.faults.fleet import Fleet
from tests.faults.history import SCORED_WITHIN, History, check_traces, goes_on
from tests.faults.network import Network, network
from tests.faults.recovering import Recoveries, percentiles
from tests.faults.sums import wrong_efforts, wrong_sums
from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker, broker
from tests.support.otlp import trace_id
from tests.support.postgres import Server, server


@dataclass
class FleetHistory(History):
    """What was done, and what was found wrong with it."""

    recoveries: dict[str, dict[str, float]] = field(default_factory=dict)
    """By fault, in seconds."""
    fenced: int = 0
    """Commits of a process that were not kept, as another one had its partitions by then."""
    scored_again: int = 0
    """Traces of which a score was told twice with other values: one before them in their session came later."""


def run(
    folder: Path, broker: Broker, server: Server, faults: int, seed: int, network: Network | None = None
) -> FleetHistory:
    """Strike a fleet so many times, and look for everything afterwards. Broker and server listen at the network's
    switches, where there is one."""
    if network is None:
        print("no network can be made here: nobody is cut off", flush=True)
    where = network.of_database.address if network else "127.0.0.1"
    history, begun = FleetHistory(), time.monotonic()
    with event_backend(where) as (backend, endpoint):
        environ = {
            "AGENTEVAL_EXPORT__ENDPOINT": endpoint,
            "AGENTEVAL_EXPORT__INTERVAL": "3600",
            "AGENTEVAL_SESSION__IDLE": "30",
        }
        fleet = Fleet(folder, broker, server, environ, Random(seed), network)
        try:
            _strike(fleet, history, faults)
            check_traces(fleet.look, fleet.load.acknowledged, backend, history)
            # Traces of a session come by different processes, and so out of order.
            history.scored_again = history.events_contradicting - len(backend.contradictions)
            history.events_contradicting = len(backend.contradictions)
            history.stored = fleet.look("SELECT count(*) FROM traces")[0][0]
            history.wrong_sums = [*wrong_sums(fleet.look), *wrong_efforts(fleet.look)]
            fleet.stop()
            history.complaints = fleet.complaints
            history.fenced = sum(each.read_text().count("left to others: ") for each in folder.glob("*/stderr"))
        except BaseException:
            for member in fleet.members:
                print(member.role, member.said.read_text()[-3000:], flush=True)
            raise
        finally:
            fleet.close()
    history.seconds = round(time.monotonic() - begun)
    return history


def _strike(fleet: Fleet, history: FleetHistory, faults: int) -> None:
    load, kinds = fleet.load, fleet.faults()
    recoveries = Recoveries(lambda: _scored(fleet))
    with recoveries.running():
        with load.running():
            for number in range(1, faults + 1):
                goes_on(load)
                [fault] = fleet.random.choices(list(kinds), weights=list(kinds.values()))
                history.faults[fault.__name__] = history.faults.get(fault.__name__, 0) + 1
                print(f"{number}/{faults} {fault.__name__}: {len(load.acknowledged)} acknowledged", flush=True)
                recoveries.begin(fault.__name__, _ids(load.acknowledged))
                fault()
            goes_on(load)
        history.acknowledged, history.requests = len(load.acknowledged), load.sent
        _wait_for_the_end(fleet)
    history.recoveries = percentiles(recoveries.all)


def _wait_for_the_end(fleet: Fleet) -> None:
    """Wait until what was acknowledged is scored, and every event has arrived."""
    wanted = frozenset(_ids(fleet.load.acknowledged))

    def all_is_there() -> bool:
        return wanted <= _scored(fleet) and fleet.look("SELECT count(*) FROM outbox")[0][0] == 0

    with suppress(AssertionError):  # What is missing, the check tells.
        eventually(all_is_there, within=SCORED_WITHIN, every=1.0)


def _scored(fleet: Fleet) -> frozenset[str]:
    """Return the traces in the store. Raises OSError where it is away."""
    from psycopg import OperationalError  # noqa: PLC0415 - the suite runs without it, too

    try:
        return frozenset(row[0] for row in fleet.look("SELECT trace_id FROM traces"))
    except OperationalError as error:
        raise OSError(str(error)) from error


def _ids(numbers: list[int]) -> list[str]:
    return [trace_id(number).hex() for number in numbers]


@contextmanager
def broker_and_server(network: Network | None) -> Iterator[tuple[Broker, Server]]:
    """Yield a broker and a database server, at the switches of the network where there is one."""
    places = (network.of_broker.address, network.of_database.address) if network else ("127.0.0.1", "127.0.0.1")
    with broker(places[0]) as kafka, server(host=places[1]) as postgresql:
        yield kafka, postgresql


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, help="an empty folder to work in; else a temporary one")
    given = parser.parse_args()
    signal(SIGTERM, lambda *_: sys.exit(1))  # Whatever was started is stopped, however it ends.
    print(f"seed {given.seed}", flush=True)
    with TemporaryDirectory() as temporary, network() as cables, broker_and_server(cables) as (kafka, postgresql):
        history = run(given.folder or Path(temporary), kafka, postgresql, given.faults, given.seed, cables)
    print(json.dumps(asdict(history), indent=1))
    sys.exit(not history.is_right)


if __name__ == "__main__":
    main()
