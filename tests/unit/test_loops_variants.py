"""The same doing in other names, envelopes, times, languages and orders is found too, and no work becomes a loop."""

import json
import random
from typing import Any

import pytest

from tests.support.behaviours import BEHAVIOURS
from tests.support.variants import VARIATIONS, varied
from tests.support.wire import DIALECTS, PLEASE, Stage

SEED = 31
"""Nothing was tuned with this one."""
SPOKEN: list[dict[str, Any]] = [
    json.loads(line)
    for name in ("as_spans", "more_as_spans", "from_reports")
    for line in (BEHAVIOURS / f"{name}.jsonl").read_text("utf-8").splitlines()
]
# A third of them: all take a minute.
DRAWN = random.Random(SEED).sample(SPOKEN, len(SPOKEN) // 3)
# An answer that is repeated across the traces of a session is found in the session alone.
LOOPS = [each for each in DRAWN if each["loops"] and all(step[0] != "asks" for step in each["steps"])]
FINE = [each for each in DRAWN if not each["loops"]]
LEAST = {"unknown fields": (0.58, 0.58), "order of keys": (0.87, 0.85)}
"""Shares of loops that are found, and that alarm."""
USUAL = (0.91, 0.87)


def told(behaviour: dict[str, Any], kind: str) -> tuple[bool, bool]:
    """Whether a variant is found, and whether it alarms. The agent and the collector find the same."""
    dialect = random.Random(f"{SEED}{kind}{behaviour['does']}").choice(DIALECTS)
    stage = Stage(dialect)
    stage.converse(varied(behaviour, kind, SEED), behaviour.get("asked", PLEASE))
    found = {(each.kind, each.is_alarm) for each in stage.told_in_the_agent()}
    assert found == {(each.kind, each.is_alarm) for each in stage.told_when_complete()}, behaviour["does"]
    return bool(found), any(is_alarm for _, is_alarm in found)


@pytest.mark.parametrize("kind", VARIATIONS)
def test_most_variants_of_loops_are_found(kind: str) -> None:
    verdicts = [told(behaviour, kind) for behaviour in LOOPS]
    least_found, least_alarms = LEAST.get(kind, USUAL)
    assert sum(is_found for is_found, _ in verdicts) >= least_found * len(verdicts)
    assert sum(is_alarm for _, is_alarm in verdicts) >= least_alarms * len(verdicts)


@pytest.mark.parametrize("kind", VARIATIONS)
def test_no_variant_of_work_alarms(kind: str) -> None:
    alarms = [behaviour["does"] for behaviour in FINE if told(behaviour, kind)[1]]
    assert alarms == []
