"""One way to show a level: read anew at each scrape and push."""

from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation


def show_level(
    meter: Meter,
    name: str,
    unit: str,
    description: str,
    read: Callable[[], Iterable[tuple[float, Mapping[str, str]]]],
) -> None:
    """Register a gauge of what `read` returns: values with their attributes. To be called once of each name."""

    def callback(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, attributes) for value, attributes in read()]

    meter.create_observable_gauge(name, [callback], unit=unit, description=description)
