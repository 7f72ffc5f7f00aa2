"""CPU time per span of decoding, recognising and reading the bundled recordings: python -m benchmarks.read_trace

The table has a line for each instrumentation. The last column is the cost of a span as a ratio to a reader that would
only know the dialects of this instrumentation.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from otel_agenteval.conventions.dialect import Dialect
from otel_agenteval.conventions.registry import DIALECTS
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.recordings import DATA, recorded_logs, recorded_spans

ROUNDS = 9
FOLDERS = (DATA / "corpus", DATA / "recorded")

Recording = tuple[dict[str, list[SpanRecord]], dict[str, list[LogRecord]]]


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the least CPU seconds that `work` took. That is its cost without other work on the machine."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def load(path: Path) -> Recording:
    return recorded_spans(path), recorded_logs(path.with_name(path.name.replace(".otlp.pb", ".logs.otlp.pb")))


def read(recordings: Sequence[Recording]) -> None:
    for spans, logs in recordings:
        for key, of_trace in spans.items():
            read_trace(key, of_trace, logs.get(key, ()))


def recognise(dialects: Sequence[Dialect], spans: Sequence[SpanRecord]) -> None:
    for span in spans:
        for dialect in dialects:
            dialect.recognises(span, ())


def measure(name: str, paths: Sequence[Path]) -> None:
    recordings = [load(path) for path in paths]
    spans = [span for traces, _ in recordings for of_trace in traces.values() for span in of_trace]
    spoken = [dialect for dialect in DIALECTS if any(dialect.recognises(span, ()) for span in spans)]
    decoding = best_of(ROUNDS, lambda: [load(path) for path in paths])
    reading = best_of(ROUNDS, lambda: read(recordings))
    recognising = best_of(ROUNDS, lambda: recognise(DIALECTS, spans))
    single = reading - recognising + best_of(ROUNDS, lambda: recognise(spoken, spans))
    columns = [f"{seconds / len(spans) * 1e6:.1f}" for seconds in (decoding, reading, recognising)]
    print(f"{name:<28}{len(spans):>7}{columns[0]:>8}{columns[1]:>8}{columns[2]:>11}{reading / single:>7.2f}")


def main() -> None:
    paths: defaultdict[str, list[Path]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.otlp.pb")):
            if not path.name.endswith(".logs.otlp.pb"):
                paths[path.name.partition("--")[0]].append(path)
    print(f"{'us of CPU per span':<28}{'spans':>7}{'decode':>8}{'read':>8}{'recognise':>11}{'ratio':>7}")
    for name, of_instrumentation in sorted(paths.items()):
        measure(name, of_instrumentation)
    other = [SpanRecord(span_id=f"{n:016x}", attributes={"http.route": "/"}) for n in range(2_000)]
    passing = best_of(ROUNDS, lambda: read_trace("t", other))
    print(f"spans of no dialect: {passing / len(other) * 1e6:.1f}")


if __name__ == "__main__":
    main()
