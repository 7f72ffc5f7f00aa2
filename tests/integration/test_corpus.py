"""Recordings of real instrumentations are read to the truth that was recorded beside them."""

import os
from pathlib import Path

import pytest

from tests.support import instrumentations
from tests.support.recordings import name_of
from tests.support.truth import FRAMEWORK_TOOLS, Fact, Recording, Verdict, truths

SHARED = Path(os.environ.get("AGENTEVAL_SHARED", Path(__file__).parents[3] / "shared")) / "corpus"

# What a recording says, but not as what it is: the framework wrote the model's thoughts down as parts of its answer,
# or its requests of tools without the message that they stood in.
NOT_TOLD_APART = {("google-adk", "reasoning"), ("openai-agents-v2", "plan")}


def unexpected(recording: Recording) -> list[Fact]:
    return [
        fact
        for fact in recording.facts()
        if not fact.holds
        and not (fact.verdict is Verdict.MISSED and (recording.instrumentation, fact.kind) in NOT_TOLD_APART)
    ]


@pytest.mark.parametrize("path", truths(), ids=name_of)
def test_every_recorded_fact_is_read_and_nothing_is_invented(path: Path) -> None:
    assert unexpected(Recording.read(path)) == []


@pytest.mark.parametrize("path", truths(), ids=name_of)
def test_agents_and_tools_are_those_of_the_application(path: Path) -> None:
    recording = Recording.read(path)
    offered = {tool["name"] for tool in recording.expected["available_tools"]} - FRAMEWORK_TOOLS
    for trace in recording.traces.values():
        assert set(trace.agents) <= set(recording.expected["agents"])
        assert {tool.name for tool in trace.available_tools} <= offered
        assert trace.dialects
        assert trace.unread == {}


def test_what_is_not_bundled_of_the_complete_corpus_is_read_as_well() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the complete corpus is not at {SHARED}; set AGENTEVAL_SHARED to the folder that has it")
    bundled = {path.name for path in truths()}
    others = [path for path in truths(SHARED) if path.name not in bundled]
    assert [(path.name, unexpected(Recording.read(path))) for path in others if unexpected(Recording.read(path))] == []


def test_the_page_of_instrumentations_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    counts = instrumentations.count(truths())
    with capsys.disabled():
        print(f"\n{instrumentations.table(counts)}")
    assert instrumentations.PAGE.read_text() == instrumentations.page(counts), "`make docs` writes it again"
