"""Every component starts, stops, fails and says how it is in the same way."""

import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from agenteval_collector.runtime.errors import CollectorError

from tests.support import lifecycle
from tests.support.eventually import eventually
from tests.support.lifecycle import Case


def _cases() -> tuple[type[Case], ...]:
    if find_spec("confluent_kafka") is None:
        return lifecycle.CASES
    from tests.support.kafka import lifecycle as of_kafka  # noqa: PLC0415 - an extra

    return lifecycle.CASES + of_kafka.CASES


CASES = _cases()
WORKERS = [each for each in CASES if each.takes_items]
REFUSED = [each for each in WORKERS if each.can_refuse]


def _name(case: type[Case]) -> str:
    return case.__name__


@pytest.fixture(params=CASES, ids=_name)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    made: Case = request.param(tmp_path)
    yield made
    made.stage.shutdown()
    made.close()


def test_a_second_start_is_an_error_and_harms_nothing(case: Case) -> None:
    case.stage.start()
    with pytest.raises(RuntimeError):
        case.stage.start()
    if case.takes_items:
        case.give(1)
        eventually(lambda: case.done == [1])
    assert case.stage.alive


def test_a_stop_before_the_start_and_a_second_one_are_safe(case: Case) -> None:
    case.stage.shutdown()
    case.stage.shutdown()
    assert not case.stage.alive


def test_its_health_is_that_of_its_thread(case: Case) -> None:
    sentence = f"{case.stage.name} does not run"
    before = case.stage.health
    case.stage.start()
    eventually(lambda: case.stage.health is None)
    case.stage.shutdown()
    assert (before, case.stage.health) == (sentence, sentence)


@pytest.mark.parametrize("case", WORKERS, indirect=True, ids=_name)
def test_a_stop_under_load_comes_to_an_end_and_does_nothing_twice(case: Case) -> None:
    stopped = threading.Event()
    load = threading.Thread(target=_load, args=(case.give, stopped))
    load.start()
    case.stage.start()
    eventually(lambda: len(case.done) > 10)
    case.stage.shutdown(60.0)
    assert not case.stage.alive
    done = list(case.done)
    stopped.set()
    load.join(10)
    assert case.done == done
    assert len(set(done)) == len(done)


def _load(give: Callable[[int], None], stopped: threading.Event) -> None:
    number = 0
    while not stopped.wait(0.002):
        number += 1
        try:
            give(number)
        except CollectorError:
            number -= 1


@pytest.mark.parametrize("case", WORKERS, indirect=True, ids=_name)
def test_a_defect_costs_one_item(case: Case) -> None:
    case.give_defect()
    case.stage.start()
    case.give(2)
    eventually(lambda: case.done == [2])
    eventually(lambda: case.stage.health is None)


@pytest.mark.parametrize("case", REFUSED, indirect=True, ids=_name)
def test_a_refusal_is_told_until_it_is_over_and_nothing_is_lost(case: Case) -> None:
    case.stage.start()
    with case.refusing():
        case.give(1)
        sentence = eventually(lambda: case.stage.health)
        assert sentence.startswith(f"{case.stage.name} is held up: ")
        assert case.done == []
    eventually(lambda: case.stage.health is None)
    if case.refuses_senders:
        case.give(2)
    eventually(lambda: case.done == [2 if case.refuses_senders else 1])
