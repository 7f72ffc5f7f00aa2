"""The judge sees a turn whole, though the calls before its last one are traces of their own."""

import asyncio
from collections.abc import Collection

from agenteval_collector.judge.asking import TraceQuestions
from agenteval_collector.judge.judgements import Judgements
from agenteval_collector.judge.panel import Judged
from agenteval_collector.model.judge_jobs import JudgeJob

from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from tests.support.clock import ManualClock
from tests.support.judge_stage import GOOD, World, job
from tests.support.spans import answer, asks, chat, told, user


def test_calls_of_earlier_traces_are_judged_with_the_answer_that_rests_on_them() -> None:
    sent = [user("Hi"), asks("search", {"q": 1}, "c1"), told("[]", "c1")]
    seen: list[Trace] = []

    def load(job: JudgeJob) -> Trace:
        return read_trace("t", [chat("m", sent, [answer("Nothing.")])])

    async def judge(trace: Trace, wanted: Collection[str], ask: TraceQuestions) -> dict[str, Judged]:
        seen.append(trace)
        return {"confidence": GOOD}

    asyncio.run(Judgements(load, judge, World().asking, ManualClock()).find(job("t")))
    [trace] = seen
    assert [(each.name, each.arguments, each.result) for each in trace.tool_calls] == [("search", {"q": 1}, "[]")]
    assert trace.output == "Nothing."
