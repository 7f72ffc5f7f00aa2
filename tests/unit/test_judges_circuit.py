"""The circuit breaker: a table of stories, and a machine that tries to get more out than is allowed."""

import pytest
from agenteval_collector.judge.client.circuit import FAILURES, FIRST_REST, LONGEST_REST, Circuit, CircuitOpen, Permit
from agenteval_collector.judge.client.port import Trouble
from agenteval_collector.runtime.clock import ManualClock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

SECOND = 1_000_000_000


def fail(circuit: Circuit, times: int = 1, retry_after: float | None = None) -> None:
    for _ in range(times):
        circuit.failed(circuit.admit(), "h: status 503", retry_after)


def rest(circuit: Circuit) -> float | None:
    """Seconds until a request may leave; None: now."""
    try:
        circuit.abandoned(circuit.admit())
    except CircuitOpen as error:
        return error.retry_after
    return None


def test_opens_after_failures_in_a_row() -> None:
    circuit = Circuit(ManualClock())
    fail(circuit, FAILURES - 1)
    assert rest(circuit) is None
    fail(circuit)
    assert rest(circuit) == FIRST_REST


def test_a_success_between_failures_keeps_it_closed() -> None:
    circuit = Circuit(ManualClock())
    fail(circuit, FAILURES - 1)
    circuit.succeeded(circuit.admit())
    fail(circuit, FAILURES - 1)
    assert rest(circuit) is None


def test_the_rest_doubles_with_every_failed_probe_up_to_the_longest() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    fail(circuit, FAILURES)
    rests = []
    for _ in range(6):
        rests.append(rest(circuit))
        clock.advance(rests[-1] or 0.0)
        fail(circuit)
    assert rests == [5.0, 10.0, 20.0, 40.0, 60.0, LONGEST_REST]


def test_a_successful_probe_closes_it_and_makes_the_rest_short_again() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    fail(circuit, FAILURES)
    clock.advance(FIRST_REST)
    fail(circuit)
    clock.advance(2 * FIRST_REST)
    circuit.succeeded(circuit.admit())
    fail(circuit, FAILURES - 1)
    assert rest(circuit) is None
    fail(circuit)
    assert rest(circuit) == FIRST_REST


@pytest.mark.parametrize("wish", [0.5, 300.0], ids=["shorter than the rest", "longer than the longest rest"])
def test_what_the_endpoint_asks_for_counts(wish: float) -> None:
    circuit = Circuit(ManualClock())
    fail(circuit, FAILURES, retry_after=wish)
    assert rest(circuit) == wish


def test_one_probe_at_a_time() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    fail(circuit, FAILURES)
    clock.advance(FIRST_REST)
    probe = circuit.admit()
    assert rest(circuit) is not None
    circuit.abandoned(probe)
    assert rest(circuit) is None, "an abandoned probe leaves its place to another"


def test_requests_from_before_it_opened_say_nothing_later() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    late_success, late_failure, forgotten = circuit.admit(), circuit.admit(), circuit.admit()
    fail(circuit, FAILURES)
    circuit.succeeded(late_success)
    assert rest(circuit) == FIRST_REST
    clock.advance(FIRST_REST)
    probe = circuit.admit()
    circuit.failed(late_failure, "late")
    circuit.abandoned(forgotten)
    assert rest(circuit) is not None, "the probe is still under way"
    circuit.succeeded(probe)
    assert rest(circuit) is None


def test_it_says_why_it_is_open() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    fail(circuit, FAILURES)
    with pytest.raises(CircuitOpen) as first:
        circuit.admit()
    assert str(first.value) == "h: status 503; left alone for 5 s after 5 failed requests"
    clock.advance(FIRST_REST)
    circuit.failed(circuit.admit(), "h: timeout", 60.0)
    with pytest.raises(CircuitOpen) as second:
        circuit.admit()
    assert str(second.value) == "h: timeout; left alone for 60 s after 6 failed requests"


def test_its_trouble_is_the_newest_failure_and_the_time_of_the_first_since_an_answer() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    assert circuit.trouble is None
    began = clock.now()
    fail(circuit)
    assert circuit.trouble == Trouble("h: status 503", began, None)
    clock.advance(3)
    circuit.failed(circuit.admit(), "h: status 429", 60.0)
    assert circuit.trouble == Trouble("h: status 429", began, clock.now() + 60 * SECOND)
    fail(circuit, FAILURES - 2)
    assert circuit.trouble == Trouble("h: status 503", began, clock.now() + round(FIRST_REST * SECOND))
    clock.advance(FIRST_REST)
    circuit.succeeded(circuit.admit())
    assert circuit.trouble is None
    fail(circuit)
    assert circuit.trouble == Trouble("h: status 503", clock.now(), None)


def test_repeated_attempts_of_one_question_do_not_open_it_but_keep_it_open() -> None:
    clock = ManualClock()
    circuit = Circuit(clock)
    for _ in range(2 * FAILURES):
        circuit.failed(circuit.admit(), "poison", first=False)
    assert rest(circuit) is None
    fail(circuit, FAILURES)
    clock.advance(FIRST_REST)
    circuit.failed(circuit.admit(), "poison", first=False)
    assert rest(circuit) == 2 * FIRST_REST, "a failed probe is one, whoever sends it"


class AnyOrder(RuleBasedStateMachine):
    """Requests that end in any order, at any time, each in any way."""

    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.circuit = Circuit(self.clock)
        self.under_way: list[Permit] = []
        self.probes: list[Permit] = []
        self.open = False

    @rule()
    def admit(self) -> None:
        try:
            permit = self.circuit.admit()
        except CircuitOpen:
            assert self.open, "refused, though nothing had opened it"
            return
        self.under_way.append(permit)
        if self.open:
            self.probes.append(permit)

    def end(self, number: int) -> tuple[Permit, bool]:
        permit = self.under_way.pop(number % len(self.under_way))
        probe = any(permit is one for one in self.probes)
        self.probes = [one for one in self.probes if one is not permit]
        return permit, probe

    @precondition(lambda self: self.under_way)
    @rule(number=st.integers(0, 99))
    def succeed(self, number: int) -> None:
        permit, probe = self.end(number)
        self.circuit.succeeded(permit)
        if probe or not self.open:
            self.open = False

    @precondition(lambda self: self.under_way)
    @rule(number=st.integers(0, 99), wish=st.none() | st.integers(0, 1000))
    def fail(self, number: int, wish: int | None) -> None:
        permit, probe = self.end(number)
        was_open = self.open
        self.circuit.failed(permit, "status 500", wish)
        self.open = self.is_open()
        assert self.open or not was_open, "a failure closed it"
        if probe:
            assert self.open, "a failed probe left it closed"

    @precondition(lambda self: self.under_way)
    @rule(number=st.integers(0, 99))
    def abandon(self, number: int) -> None:
        self.circuit.abandoned(self.end(number)[0])

    @rule(seconds=st.integers(0, 120))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    def is_open(self) -> bool:
        """Two requests at once leave only where it is closed."""
        permits = []
        try:
            permits = [self.circuit.admit()]
            permits.append(self.circuit.admit())
        except CircuitOpen:
            return True
        finally:
            for permit in permits:
                self.circuit.abandoned(permit)
        return False

    @invariant()
    def at_most_one_probe(self) -> None:
        assert len(self.probes) <= 1

    def teardown(self) -> None:
        if not hasattr(self, "circuit"):
            return
        for permit in self.under_way:
            self.circuit.abandoned(permit)
        waited = rest(self.circuit)
        if waited is not None:
            assert 0 < waited <= 1000, "nobody asked for that"
            self.clock.advance(waited)
            assert rest(self.circuit) is None, "it keeps nobody out for longer than it said"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
