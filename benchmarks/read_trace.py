"""CPU time per span of decoding and reading the bundled recordings: python -m benchmarks.read_trace"""

import time
from collections.abc import Callable

from otel_agenteval.conventions import SpanRecord, read_trace
from tests.support.recordings import DATA, recorded_spans

ROUNDS = 15


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """The least CPU seconds that `work` took, which is what it costs without its neighbours on the machine."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def main() -> None:
    paths = sorted(path for path in (DATA / "corpus").glob("*.otlp.pb") if not path.name.endswith(".logs.otlp.pb"))
    recordings = [recorded_spans(path) for path in paths]
    count = sum(len(spans) for traces in recordings for spans in traces.values())
    decoding = best_of(ROUNDS, lambda: [recorded_spans(path) for path in paths])
    reading = best_of(
        ROUNDS, lambda: [read_trace(key, spans) for traces in recordings for key, spans in traces.items()]
    )
    other = [SpanRecord(span_id=f"{n:016x}", attributes={"http.route": "/"}) for n in range(2_000)]
    passing = best_of(ROUNDS, lambda: read_trace("t", other))
    print(f"decode {decoding / count * 1e6:.1f} us/span, read {reading / count * 1e6:.1f} us/span ({count} spans)")
    print(f"spans of no dialect {passing / len(other) * 1e6:.1f} us/span")


if __name__ == "__main__":
    main()
