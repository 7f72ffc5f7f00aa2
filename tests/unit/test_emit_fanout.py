import pytest
from agenteval_collector.emit.fanout import Fanout
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.news import News

from tests.support.evaluations import committed
from tests.support.rendering import rendered


class Recorder:
    """A sink that keeps what it got, and raises while it is broken."""

    def __init__(self) -> None:
        self.accepted: list[News] = []
        self.broken = False

    def take_news(self, news: News) -> None:
        if self.broken:
            raise OSError("disk full")
        self.accepted.append(news)


def test_a_failing_sink_does_not_stop_the_others_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    first, second, third = Recorder(), Recorder(), Recorder()
    second.broken = True
    fanout = Fanout({"first": first, "second": second, "third": third}, telemetry.own_work)
    news = News(evaluations=[committed()])
    for _ in range(3):
        fanout.take_news(news)
    assert first.accepted == third.accepted == [news] * 3
    page = rendered(telemetry)
    assert 'agenteval_collector_sink_failures_total{agenteval_sink="second"} 3.0' in page
    assert [record.getMessage() for record in caplog.records] == ["nothing reaches second any more"]
    assert "disk full" in caplog.text


def test_a_sink_that_recovers_gets_what_comes_next_and_a_new_failure_is_logged_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    sink = Recorder()
    fanout = Fanout({"sink": sink}, TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True).own_work)
    for sink.broken in (True, False, True):
        fanout.take_news(News(evaluations=[committed()]))
    assert len(sink.accepted) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "nothing reaches sink any more",
        "sink is reached again",
        "nothing reaches sink any more",
    ]
