"""What importing the client costs the agent that imports it."""

import subprocess
import sys

import pytest


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_loads_nothing_heavy() -> None:
    loaded = python("import sys, otel_agenteval; print(*sys.modules)").split()
    roots = {name.partition(".")[0] for name in loaded}
    assert roots.isdisjoint({"agenteval_collector", "numpy", "scipy", "rapidfuzz", "openai", "pydantic", "yaml"})
    assert not [name for name in loaded if name.startswith(("otel_agenteval.metrics", "otel_agenteval.conventions"))]
    assert not [name for name in loaded if name.startswith("opentelemetry.exporter")], "their presence decides"


def test_a_processor_loads_the_dialects_and_no_reader_of_whole_traces() -> None:
    code = "import sys, otel_agenteval; made = otel_agenteval.AgentEvalSpanProcessor(); print(*sys.modules)"
    loaded = set(python(code).split())
    assert "otel_agenteval.conventions.registry" in loaded
    assert loaded.isdisjoint(f"otel_agenteval.conventions.{name}" for name in ("reader", "turns", "tools", "tree"))


def test_import_is_no_slower_than_the_stock_exporters() -> None:
    stock = "import opentelemetry.sdk.trace.export, opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
    timed = "import time; t = time.process_time(); {}; print(time.process_time() - t)"

    def best(code: str) -> float:
        return min(float(python(timed.format(code))) for _ in range(3))

    assert best("import otel_agenteval") < 1.5 * best(stock)


def test_public_names() -> None:
    import otel_agenteval  # noqa: PLC0415

    assert otel_agenteval.__all__ == [
        "AgentEvalSpanProcessor",
        "AgentLoopDetected",
        "RunHandle",
        "Stats",
        "Verdict",
        "attach",
        "current_verdict",
        "feedback",
        "raise_if_looping",
        "run",
        "session",
        "stop_on_loop",
    ]
    for name in otel_agenteval.__all__:
        assert getattr(otel_agenteval, name).__doc__


@pytest.mark.parametrize("setting", ["max_buffer_spans", "max_buffer_bytes"])
def test_bound_that_holds_nothing_is_refused(setting: str) -> None:
    import otel_agenteval  # noqa: PLC0415

    with pytest.raises(ValueError, match=f"{setting} is 0"):
        otel_agenteval.AgentEvalSpanProcessor(**{setting: 0})  # type: ignore[arg-type]
