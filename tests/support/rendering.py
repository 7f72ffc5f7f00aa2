"""The Prometheus page, as somebody sees it who only looks."""

from agenteval_collector.emit.output import TelemetryOutput


def rendered(output: TelemetryOutput) -> str:
    """Return the page with what everything has counted."""
    return output.render({})[0].decode()
