"""A dialect is one module: whoever reads spans, whole traces or single ones, sees it without being told."""

import json
import subprocess
import sys
from pathlib import Path

from otel_agenteval.conventions.registry import DIALECTS

MODULE = """
from otel_agenteval.conventions.decoding import decode_arguments
from otel_agenteval.conventions.dialect import Dialect, AttributeKeys, KindAttribute
from otel_agenteval.conventions.dialect import SpanRole, SpanFacts
from otel_agenteval.conventions.content import Content
from otel_agenteval.conventions.messages import ASSISTANT, USER

_KIND = KindAttribute(
    "acme.kind", {"bot": SpanRole.AGENT, "ask": SpanRole.MODEL, "act": SpanRole.TOOL}, agents=("acme.bot",)
)


class Acme(Dialect):
    name = "acme"
    content_switch = "set ACME_CONTENT=1"
    keys = AttributeKeys(
        kinds=(_KIND,),
        tools=("acme.tool",),
        arguments=("acme.in",),
        results=("acme.out",),
        messages=("acme.in",),
        replies=("acme.out",),
        sessions=("acme.chat",),
    )

    def recognises(self, span, logs):
        return _KIND.key in span.attributes

    def read(self, span, logs):
        given, returned = span.attributes.get("acme.in"), span.attributes.get("acme.out")
        facts = SpanFacts(role=_KIND.role(span.attributes))
        if facts.role is SpanRole.MODEL:
            facts.input = Content.recorded_as(given, USER)
            facts.output = Content.recorded_as(returned, ASSISTANT)
        elif facts.role is SpanRole.TOOL:
            facts.tool, facts.arguments = span.attributes.get("acme.tool"), decode_arguments(given)
            facts.result = returned
        return facts
"""
READERS = """
import json, sys
from otel_agenteval.conventions import dialects

if len(sys.argv) > 1:
    dialects.__path__.append(sys.argv[1])

from otel_agenteval.conventions.agents import agent_of, is_agent_run
from otel_agenteval.conventions.model_questions import question_of
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.conventions.registry import content_switch
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.loops.light_reader import kind_of, step_of

run = {"acme.kind": "bot", "acme.bot": "clerk", "acme.chat": "s-7"}
asked = {
    "acme.kind": "ask",
    "acme.in": '[{"role": "user", "content": "hi"}]',
    "acme.out": '[{"role": "assistant", "content": "yes"}]',
}
tool = {"acme.kind": "act", "acme.tool": "search", "acme.in": "7", "acme.out": "3 hits"}
trace = read_trace("t", [
    SpanRecord(span_id="1", name="r", attributes=run, started_at=1, ended_at=9),
    SpanRecord(span_id="2", parent_id="1", name="m", attributes=asked, started_at=2, ended_at=3),
    SpanRecord(span_id="3", parent_id="1", name="t", attributes=tool, started_at=4, ended_at=5),
])
step = step_of(span_id="3", name="t", attributes=tool)
reply = step_of(span_id="2", name="m", attributes=asked)
print(json.dumps({
    "full reader": [[turn.input, turn.output, *(call.name for call in turn.tool_calls)] for turn in trace.turns],
    "session": trace.session_id,
    "agents": [*trace.agents, agent_of("r", run), is_agent_run("r", run)],
    "kinds": [kind_of("m", asked), kind_of("t", tool)],
    "light reader": step and [step.name, step.result],
    "reply": reply and reply.reply,
    "question": bool(question_of(asked)),
    "advice": content_switch(["acme"]),
}))
"""


def read(*folders: Path) -> dict[str, object]:
    """Read a trace by every reader, in a process of its own, with further folders of dialects."""
    command = [sys.executable, "-c", READERS, *map(str, folders)]
    found: dict[str, object] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def test_a_module_among_the_dialects_is_seen_by_every_reader(tmp_path: Path) -> None:
    (tmp_path / "acme.py").write_text(MODULE)
    assert read(tmp_path) == {
        "full reader": [["hi", "yes", "search"]],
        "session": "s-7",
        "agents": ["clerk", "clerk", True],
        "kinds": ["model", "tool"],
        "light reader": ["search", "3 hits"],
        "reply": "yes",
        "question": True,
        "advice": "set ACME_CONTENT=1",
    }


def test_a_dialect_needs_no_switch(tmp_path: Path) -> None:
    (tmp_path / "acme.py").write_text(MODULE.replace('    content_switch = "set ACME_CONTENT=1"\n', ""))
    assert read(tmp_path)["advice"] is None


def test_without_the_module_nobody_sees_it() -> None:
    assert read() == {
        "full reader": [],
        "session": None,
        "agents": [None, False],
        "kinds": ["other", "other"],
        "light reader": None,
        "reply": None,
        "question": False,
        "advice": None,
    }


def test_a_mark_and_a_name_belong_to_one_dialect_each() -> None:
    marks = [mark for dialect in DIALECTS for mark in dialect.marks]
    names = [name for dialect in DIALECTS for name in dialect.names]
    assert len(set(marks)) == len(marks)
    assert len(set(names)) == len(names)
