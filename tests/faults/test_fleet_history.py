import os
from pathlib import Path

import pytest

from tests.faults.fleet_history import broker_and_server, run
from tests.faults.network import network
from tests.support.kafka.broker import Broker
from tests.support.postgres import Server

FAULTS = int(os.environ.get("FAULTS", "6"))


@pytest.mark.distributed
@pytest.mark.timeout(900)
def test_through_random_faults_a_fleet_loses_nothing_and_doubles_nothing(
    tmp_path: Path, kafka: Broker, postgresql: Server
) -> None:
    with network() as cables, broker_and_server(cables) as (broker, server):
        history = run(tmp_path, broker, server, faults=FAULTS, seed=390, network=cables)
    assert history.is_right, history
    assert history.acknowledged >= 10 * FAULTS
