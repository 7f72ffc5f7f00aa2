"""Where the judge has a sample, a pipeline asks it by itself about what guesses are least certain of."""

from pathlib import Path

import pytest
from agenteval_collector.app.pipeline import Pipelines
from agenteval_collector.config.judge import JudgeConfig
from agenteval_collector.judge.uncertain import UncertainAsking
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.runtime.machine import memory_limit
from agenteval_collector.runtime.memory import MemoryGuard

from tests.support.clock import ManualClock
from tests.support.otlp import START
from tests.support.running_collector import settings

URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("judge", "asks"),
    [
        pytest.param(JudgeConfig(base_url=URL, sample=0.2), True, id="a sample"),
        pytest.param(JudgeConfig(base_url=URL, sample=0.2, escalate=0), False, id="nothing beside the sample"),
        pytest.param(JudgeConfig(base_url=URL), False, id="all is judged"),
        pytest.param(JudgeConfig(enabled=False, base_url=URL, sample=0.2), False, id="no judge"),
    ],
)
def test_the_judge_is_asked_beside_its_sample_where_there_is_room(
    tmp_path: Path, judge: JudgeConfig, asks: bool
) -> None:
    clock = ManualClock(START)
    config = settings(tmp_path).model_copy(update={"judge": judge})
    made = Pipelines(config, clock, (), MemoryGuard(memory_limit(), clock))
    try:
        made.start()
        pipeline = made.of(DEFAULT_TENANT)
        stages = [each for each in pipeline.components if isinstance(each, UncertainAsking)]
        assert bool(stages) is asks
        # A look at a store without a rate asks nothing, and nothing fails.
        for stage in stages:
            stage.step()
        assert pipeline.health is None
    finally:
        made.shutdown()
