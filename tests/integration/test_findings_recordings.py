"""In recordings of real instrumentations those facts are found that happened, and no others."""

from pathlib import Path

import pytest
from agenteval_collector.evaluation.findings.trace import findings_in, seen_in

from otel_agenteval.finding import Finding, FindingKind, Visibility
from tests.support.recordings import name_of
from tests.support.truth import Recording, truths

EXPECTED = {FindingKind.TURN_FAILED, FindingKind.MODEL_FAILED, FindingKind.TOOL_FAILED}
"""What happens in the recorded scenarios."""


def findings(recording: Recording) -> list[Finding]:
    traces = sorted(recording.traces.values(), key=lambda trace: trace.started_at)
    return [
        finding
        for index, trace in enumerate(traces)
        for finding in findings_in(trace, session_id="s", is_first=index == 0, found_at=0)
    ]


@pytest.mark.parametrize("path", truths(), ids=name_of)
def test_what_went_wrong_is_found_and_nothing_else(path: Path) -> None:
    recording = Recording.read(path)
    found = findings(recording)
    turns = recording.expected["turns"]
    failed = [finding for finding in found if finding.kind is FindingKind.TURN_FAILED]
    assert len(failed) == sum(bool(turn["model_error"]) for turn in turns)
    broken = any(turn["tool_errors"] for turn in turns)
    assert any(finding.kind is FindingKind.TOOL_FAILED for finding in found) is broken
    # Some scripts call a tool with a value that nobody said.
    made_up = {FindingKind.VALUE_NOT_SAID} if recording.expected.get("values_not_said") else set()
    assert {finding.kind for finding in found} <= EXPECTED | made_up


@pytest.mark.parametrize("path", truths(), ids=name_of)
def test_what_was_recorded_was_seen(path: Path) -> None:
    recording = Recording.read(path)
    for turn in recording.expected["turns"]:
        for trace_id in turn["trace_ids"]:
            seen = seen_in(recording.traces[trace_id], is_first=True)
            if len(turn["trace_ids"]) == 1 and turn["final_output"] and turn["observed"]["final_output_recorded"]:
                assert seen.answers in (Visibility.ALL, Visibility.SOME)
            if not any(turn["observed"]["tool_arguments_recorded"]):
                assert seen.arguments in (None, Visibility.NONE)
