"""Figures of reliability as gauges."""

from collections.abc import Sequence

from agenteval_collector.emit.attributes import BoundedIdentities
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.runs import VersionFigures

from tests.support.rendering import rendered


def version(
    agent: str | None, name: str | None, runs: int = 4, figures: dict[str, float] | None = None
) -> VersionFigures:
    return VersionFigures(
        agent=agent,
        service="office",
        version=name,
        runs=runs,
        figures={"C_out": 0.5} if figures is None else figures,
    )


class Runs:
    """Versions that a test changes between two scrapes."""

    def __init__(self, *versions: VersionFigures) -> None:
        self.versions = versions

    def figures(self) -> Sequence[VersionFigures]:
        return self.versions


def page(runs: Runs, labels: BoundedIdentities | None = None) -> list[str]:
    output = TelemetryOutput(version="1", instance_id="i", identities=labels, is_on_duty=lambda: True)
    try:
        output.versions.observe_reliability(runs.figures)
        text = rendered(output)
    finally:
        output.shutdown(1.0)
    return sorted(line for line in text.splitlines() if line.startswith("agenteval_reliability"))


def test_every_defined_figure_is_a_series_with_the_attributes_of_the_contract() -> None:
    whose = 'gen_ai_agent_name="clerk",service_version="1.4"'
    assert page(Runs(version("clerk", "1.4", 8, {"C_out": 0.5, "R": 0.25}))) == [
        f"agenteval_reliability_runs{{{whose}}} 8.0",
        f'agenteval_reliability{{agenteval_reliability_metric="C_out",{whose}}} 0.5',
        f'agenteval_reliability{{agenteval_reliability_metric="R",{whose}}} 0.25',
    ]


def test_what_is_undefined_or_unknown_has_no_series_or_label() -> None:
    assert page(Runs()) == []
    assert page(Runs(version(None, None, 2, {}))) == ["agenteval_reliability_runs 2.0"]


def test_agents_past_the_bound_have_no_figures_rather_than_those_of_others() -> None:
    versions = [version(f"agent {number}", str(number)) for number in range(10)]
    assert len(page(Runs(*versions), BoundedIdentities(agents=3))) == 2 * 3


def test_a_version_has_figures_however_many_came_before_it() -> None:
    identities = BoundedIdentities(versions=2)
    for number in range(5):
        assert f'service_version="{number}"' in page(Runs(version("clerk", str(number))), identities)[0]


def test_hostile_names_cannot_break_the_page() -> None:
    (figure, runs) = page(Runs(version('a"} 1\nb' + "x" * 1000, "\ud800")))[::-1]
    assert 'gen_ai_agent_name="a\\"} 1\\nb' in figure
    assert runs.endswith('service_version="?"} 4.0')
