"""Processes that fork: workers of web servers, multiprocessing."""

import pytest

from tests.support.agents import run_agent
from tests.support.fake_collector import FakeCollector, attributes

FORKING = """
    import os, sys
    import otel_agenteval
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    processor = otel_agenteval.AgentEvalSpanProcessor(sys.argv[1] if len(sys.argv) > 1 else None)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    {before}
    with otel_agenteval.session("s1"):
        root = tracer.start_span("parent root")
        held = tracer.start_span("parent held", context=trace.set_span_in_context(root))
        held.end()
        children = []
        for n in range(3):
            child = os.fork()
            if child == 0:
                stats = processor.stats
                assert stats.buffered == 0 and stats.handed_over == 0, stats
                with tracer.start_as_current_span(f"child {{n}}", context=trace.set_span_in_context(root)):
                    pass
                assert processor.force_flush(10_000)
                assert processor.stats.exported == 1, processor.stats
                processor.shutdown()
                os._exit(0)
            children.append(child)
        for child in children:
            assert os.waitpid(child, 0)[1] == 0
        root.end()
    assert processor.force_flush(10_000)
    print(processor.stats.exported)
"""


@pytest.mark.parametrize(
    ("before", "exported"),
    [
        pytest.param("pass", 2, id="before the parent sent anything"),
        pytest.param(
            "tracer.start_span('first').end(); assert processor.force_flush()", 3, id="with the parent connected"
        ),
    ],
)
def test_each_process_sends_what_is_its_own(before: str, exported: int) -> None:
    with FakeCollector() as collector:
        agent = run_agent(
            FORKING.format(before=before), environ={"AGENTEVAL_ENDPOINT": collector.endpoint}, check=False
        )
        assert agent.returncode == 0, agent.stderr
        assert agent.stdout.strip() == str(exported)
        spans = {span.name: (resource, attributes(span)) for resource, span in collector.spans_with_resource()}
        assert len(collector.spans()) == len(spans), "nothing arrives twice"
    assert set(spans) - {"first"} == {"parent root", "parent held", "child 0", "child 1", "child 2"}
    processes = {name: resource["agenteval.process.id"] for name, (resource, _) in spans.items()}
    assert processes["parent root"] == processes["parent held"]
    assert len(set(processes.values())) == 4
    counts = {name: found.get("agenteval.trace.span_count") for name, (_, found) in spans.items() if name != "first"}
    assert counts == {"parent root": 2, "parent held": None, "child 0": 1, "child 1": 1, "child 2": 1}
    assert {found["agenteval.session.id"] for name, (_, found) in spans.items() if name != "first"} == {"s1"}
    assert "Wrong file descriptor generation" not in agent.stderr


WATCHED = """
    import os, queue, sys
    import otel_agenteval
    from opentelemetry.sdk.trace import TracerProvider

    heard = queue.Queue()
    provider = TracerProvider()
    processor = otel_agenteval.AgentEvalSpanProcessor(on_verdict=heard.put, live=True)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "{}"}

    def loop():
        with tracer.start_as_current_span("root"):
            for _ in range(3):
                tracer.start_span("execute_tool t", attributes=tool).end()
        assert heard.get(timeout=30).kind == "identical_call"
        assert processor.force_flush(10_000)

    loop()
    if (child := os.fork()) == 0:
        loop()
        processor.shutdown()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    loop()
"""


def test_each_process_watches_and_listens_for_itself() -> None:
    with FakeCollector() as collector:
        agent = run_agent(WATCHED, environ={"AGENTEVAL_ENDPOINT": collector.endpoint}, check=False)
        assert agent.returncode == 0, agent.stderr
        assert collector.wait_for(lambda got: len({each.process_id for each in got.watches}) == 2)
        found = [attributes(span) for span in collector.spans()]
    assert sum("agenteval.findings" in each for each in found) == 3
    assert "Traceback" not in agent.stderr


AT_ANY_MOMENT = """
    import os, time
    import otel_agenteval
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    processor = otel_agenteval.AgentEvalSpanProcessor(on_verdict=print)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")

    def step():
        tracer.start_span("step").end()

    step()
    children = []
    for n in range(8):
        # Another moment each time of our threads' imports, connecting, requests and streams.
        spun = time.perf_counter() + {spin} * n
        while time.perf_counter() < spun:
            pass
        step()
        if (child := os.fork()) == 0:
            step()
            assert processor.force_flush(10_000), processor.stats
            assert processor.stats.exported == 1, processor.stats
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    assert processor.force_flush(10_000)
    assert processor.stats.exported == 9, processor.stats
"""


@pytest.mark.parametrize("spin", [0.0, 0.001, 0.003])
def test_a_child_inherits_nothing_half_done(spin: float) -> None:
    with FakeCollector() as collector:
        agent = run_agent(
            AT_ANY_MOMENT.format(spin=spin), environ={"AGENTEVAL_ENDPOINT": collector.endpoint}, check=False
        )
        assert agent.returncode == 0, agent.stderr
        assert len(collector.spans()) == 17


MEANWHILE_BUSY = """
    import os, signal, threading, time
    import otel_agenteval
    from opentelemetry import trace

    def busy(*_):
        if os.getpid() == parent:
            reached.set()
            go_on.wait()
        return time.monotonic()

    parent, reached, go_on = os.getpid(), threading.Event(), threading.Event()
    {before}
    worker = threading.Thread(target=lambda: {work}, daemon=True)
    worker.start()
    assert reached.wait(30)
    if (child := os.fork()) == 0:
        signal.alarm(10)
        {work}
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    worker.join()
    assert status == 0, status
"""


@pytest.mark.parametrize(
    ("before", "work"),
    [
        pytest.param("", "otel_agenteval.attach(monotonic=busy)", id="it attaches"),
        pytest.param(
            "from otel_agenteval import _global_provider; _global_provider.follow(busy)",
            "trace.get_tracer('agent').start_span('first').end()",
            id="it makes the tracer provider",
        ),
    ],
)
def test_a_child_may_do_what_another_thread_was_at(before: str, work: str) -> None:
    agent = run_agent(MEANWHILE_BUSY.format(before=before, work=work), check=False)
    assert agent.returncode == 0, agent.stderr


def test_spans_of_a_process_that_just_ends_arrive() -> None:
    code = """
        import otel_agenteval
        from opentelemetry.sdk.trace import TracerProvider

        provider = TracerProvider({options})
        provider.add_span_processor(otel_agenteval.AgentEvalSpanProcessor())
        provider.get_tracer("agent").start_span("last").end()
    """
    with FakeCollector() as collector:
        for options in ("shutdown_on_exit=True", "shutdown_on_exit=False"):
            run_agent(code.format(options=options), environ={"AGENTEVAL_ENDPOINT": collector.endpoint})
        assert [span.name for span in collector.spans()] == ["last", "last"]


WORKERS = """
    import multiprocessing, sys
    from concurrent.futures import ProcessPoolExecutor
    import otel_agenteval
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
    otel_agenteval.attach()
    forking = multiprocessing.get_context("fork")

    def task(number):
        with trace.get_tracer("agent").start_as_current_span(f"task {{number}}"):
            return number

    if __name__ == "__main__":
        {run}
"""


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            "for n in range(4):\n            p = forking.Process(target=task, args=(n,)); p.start(); p.join()",
            id="a process each",
        ),
        pytest.param(
            "pool = forking.Pool(2, maxtasksperchild=1); pool.map(task, range(4), chunksize=1); pool.close();"
            " pool.join()",
            id="a pool that renews its workers",
        ),
        pytest.param(
            "with ProcessPoolExecutor(2, mp_context=forking) as pool: list(pool.map(task, range(4)))", id="an executor"
        ),
    ],
)
def test_short_workers_deliver_their_spans_before_they_end(run: str) -> None:
    with FakeCollector() as collector:
        agent = run_agent(WORKERS.format(run=run), environ={"AGENTEVAL_ENDPOINT": collector.endpoint}, check=False)
        assert agent.returncode == 0, agent.stderr
        assert sorted(span.name for span in collector.spans()) == [f"task {number}" for number in range(4)]
