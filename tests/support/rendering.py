"""What a Prometheus page shows once every series has been there before."""

from agenteval_collector.emit.telemetry import TelemetryOutput


def rendered(output: TelemetryOutput) -> str:
    """The page of the second scrape: the first shows each new counter as 0."""
    output.render()
    return output.render()[0].decode()
