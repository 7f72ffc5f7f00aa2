"""The sender's log: few lines, and none of them understates."""

import logging

from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.sending.throttle import INTERVAL, ThrottledLog

KIND = "dropped %d spans (refused)"
OTHER = "dropped %d spans (shutdown)"


class Lines(logging.Handler):
    """Keeps the lines of a logger of its own, and is its clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.messages: list[str] = []
        self.logger = logging.Logger("losses")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def losses(self) -> ThrottledLog:
        return ThrottledLog(self.logger, lambda: self.now)


def test_line_carries_the_sum_since_the_last_of_its_kind() -> None:
    lines = Lines()
    losses = lines.losses()
    for count in (124, 512, 512):
        losses.lose(KIND, count, f"problem of {count}")
        losses.log_losses()
    assert lines.messages == ["dropped 124 spans (refused): problem of 124"]
    lines.now += INTERVAL
    losses.log_losses()
    losses.log_losses()
    assert lines.messages[1:] == ["dropped 1024 spans (refused): problem of 512"]


def test_rest_is_logged_at_the_end_though_the_minute_is_not_over() -> None:
    lines = Lines()
    losses = lines.losses()
    losses.lose(KIND, 1, "a")
    losses.log_losses()
    losses.lose(KIND, 2, "100 % b")
    losses.lose(OTHER, 3, "c")
    losses.log_rest()
    losses.log_rest()
    assert lines.messages[1:] == ["dropped 2 spans (refused): 100 % b", "dropped 3 spans (shutdown): c"]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([KIND, OTHER]), st.integers(1, 1000), st.sampled_from([0.0, 1.0, 59.0, 61.0]))
    )
)
def test_lines_add_up_to_what_was_lost_and_come_once_a_minute(steps: list[tuple[str, int, float]]) -> None:
    lines = Lines()
    losses = lines.losses()
    times: dict[str, list[float]] = {KIND: [], OTHER: []}
    for kind, count, pause in steps:
        lines.now += pause
        losses.lose(kind, count, "p")
        before = len(lines.messages)
        losses.log_losses()
        for line in lines.messages[before:]:
            times[kind_of(line)].append(lines.now)
    losses.log_rest()
    for kind in (KIND, OTHER):
        logged = sum(int(line.split()[1]) for line in lines.messages if kind_of(line) == kind)
        assert logged == sum(count for of, count, _ in steps if of == kind)
        assert all(later - earlier >= INTERVAL for earlier, later in zip(times[kind], times[kind][1:], strict=False))


def kind_of(line: str) -> str:
    return KIND if "(refused)" in line else OTHER
