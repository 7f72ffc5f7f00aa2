"""Tool calls written as text: what models write, and what only looks like it."""

import time

import pytest
from agenteval_collector.evaluation.findings.call_syntax import written_calls
from agenteval_collector.evaluation.findings.trace import findings_in

from otel_agenteval.finding import Finding
from otel_agenteval.model import Tool, Trace
from tests.support.evaluating import call, trace, turn

ORDER = Tool(name="get_order", parameters={"type": "object"})
JSON = '{"name": "get_order", "arguments": {"order_id": "7731"}}'
LLAMA = '{"name": "get_order", "parameters": {"order_id": "7731"}}'


def found(subject: Trace) -> list[Finding]:
    findings = findings_in(subject, session_id="s", is_first=True, found_at=1)
    return [each for each in findings if each.kind == "tool_call_as_text"]


MARKED = [
    pytest.param(f"<tool_call>\n{JSON}\n</tool_call>", id="Hermes and Qwen"),
    pytest.param(f"<tool_call>\n{JSON}\n</tool_call>\n<tool_call>\n{JSON}\n</tool_call>", id="Hermes, twice"),
    pytest.param(f"<tool_call>\n{JSON}", id="Hermes, never closed"),
    pytest.param('<tool_call>\n{"name": "get_order", "arguments": {"order_id": ', id="Hermes, cut"),
    pytest.param("<tool_call>\n{'name': 'x', \"name\": \"get_order\"}\n</tool_call>", id="Hermes, broken JSON"),
    pytest.param(f"Let me look that up.\n\n<tool_call>\n{JSON}\n</tool_call>", id="behind a word to the user"),
    pytest.param(f"<think>The user wants <b>it</b>.</think>\n\n<tool_call>{JSON}</tool_call>", id="behind a thought"),
    pytest.param(f"```\n<tool_call>\n{JSON}\n</tool_call>\n```", id="all of it fenced"),
    pytest.param(f"<function_call>{JSON}</function_call>", id="function_call tags"),
    pytest.param(f"<tool_calls>\n[{JSON}]\n</tool_calls>", id="Jamba"),
    pytest.param(
        "<tool_call>\n<function=get_order>\n<parameter=order_id>\n7731\n</parameter>\n</function>\n</tool_call>",
        id="Qwen3 coder",
    ),
    pytest.param('<function=get_order>{"order_id": "7731"}</function>', id="Llama 3.1, function tag"),
    pytest.param(f"<|python_tag|>{LLAMA}", id="Llama 3.1"),
    pytest.param('<|python_tag|>get_order.call(order_id="7731")', id="Llama 3.1, Python"),
    pytest.param(f"[TOOL_CALLS] [{JSON}]", id="Mistral"),
    pytest.param('[TOOL_CALLS]get_order[ARGS]{"order_id": "7731"}', id="Mistral, version 11"),
    pytest.param('[TOOL_CALLS]get_order{"order_id": "7731"}', id="Mistral, version 13"),
    pytest.param(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_order\n```json\n"
        '{"order_id": "7731"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        id="DeepSeek R1",
    ),
    pytest.param(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_order<｜tool▁sep｜>"
        '{"order_id": "7731"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        id="DeepSeek 3.1",
    ),
    pytest.param(
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_order">\n<｜DSML｜parameter name="order_id" string="true">'
        "7731</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        id="DeepSeek 3.2",
    ),
    pytest.param(
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order:0<|tool_call_argument_begin|>"
        '{"order_id": "7731"}<|tool_call_end|><|tool_calls_section_end|>',
        id="Kimi K2",
    ),
    pytest.param('functions.get_order:0{"order_id": "7731"}', id="Kimi K2, without its tokens"),
    pytest.param('to=functions.get_order  code\n  {"order_id": "7731"}', id="a channel, over two lines"),
    pytest.param(
        '<|channel|>commentary to=functions.get_order <|constrain|>json<|message|>{"order_id": "7731"}<|call|>',
        id="gpt-oss",
    ),
    pytest.param('assistantcommentary to=functions.get_order json{"order_id":"7731"}', id="gpt-oss without tokens"),
    pytest.param(
        '<function_calls>\n<invoke name="get_order">\n<parameter name="order_id">7731</parameter>\n</invoke>\n'
        "</function_calls>",
        id="Claude",
    ),
    pytest.param(
        '<minimax:tool_call>\n<invoke name="get_order">\n<parameter name="order_id">7731</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        id="MiniMax",
    ),
    pytest.param(
        "<tool_call>get_order\n<arg_key>order_id</arg_key>\n<arg_value>7731</arg_value>\n</tool_call>", id="GLM"
    ),
    pytest.param(f"<|tool_call|>[{JSON}]", id="Granite"),
    pytest.param('<|START_ACTION|>[{"tool_name": "get_order", "parameters": {}}]<|END_ACTION|>', id="Cohere"),
    pytest.param("```tool_code\nprint(default_api.get_order(order_id='7731'))\n```", id="Gemini"),
    pytest.param('<|tool_call_start|>[get_order(order_id="7731")]<|tool_call_end|>', id="Liquid"),
    pytest.param('Action: get_order\nAction Input: {"order_id": "7731"}', id="ReAct"),
]  # fmt: skip

BARE = [
    pytest.param(LLAMA, id="JSON"),
    pytest.param(f"```json\n{JSON}\n```", id="JSON, fenced"),
    pytest.param(f"[{JSON}, {JSON}]", id="a list in JSON"),
    pytest.param(f"{LLAMA}; {LLAMA}", id="JSON twice"),
    pytest.param(f"I will look that up.\n\n{LLAMA}", id="JSON behind a word to the user"),
    pytest.param('{"type": "function", "function": {"name": "get_order", "arguments": "{}"}}', id="OpenAI's object"),
    pytest.param(
        '{"tool_uses": [{"recipient_name": "functions.get_order", "parameters": {"order_id": "7731"}}]}',
        id="several calls at once",
    ),
    pytest.param('get_order(order_id="7731")', id="Python"),
    pytest.param('[get_order(order_id="7731"), get_order(order_id="7732", lines=[1, 2])]', id="Python in a list"),
    pytest.param("```python\nget_order(order_id='7731')\n```", id="Python, fenced"),
    pytest.param(f"Let me check.\n```json\n{JSON}\n```", id="JSON, fenced behind a few words"),
    pytest.param('{"action": "get_order", "action_input": {"order_id": "7731"}}', id="LangChain's object"),
]


@pytest.mark.parametrize("text", [*MARKED, *BARE])
def test_a_call_of_a_known_tool_is_found_in_every_syntax(text: str) -> None:
    (finding,) = found(trace(turn("Where is 7731?", text), tools=[ORDER]))
    assert (finding.tool, finding.turn, finding.severity) == ("get_order", 0, "error")
    assert "written as text" in finding.reason


@pytest.mark.parametrize("text", MARKED)
def test_a_marked_call_is_found_where_nothing_is_known_of_tools(text: str) -> None:
    assert [each.tool for each in found(trace(turn("Where is 7731?", text)))] == ["get_order"]


@pytest.mark.parametrize("text", BARE)
def test_what_is_not_marked_may_be_anything_where_no_tool_is_known(text: str) -> None:
    assert found(trace(turn("Where is 7731?", text))) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Your order 7731 is on its way.", id="plain words"),
        pytest.param("I used get_order(order_id='7731') to look it up.", id="a call in a sentence"),
        pytest.param("Call `get_order(order_id='7731')`.", id="a call in inline code"),
        pytest.param(f"Qwen writes:\n\n```\n<tool_call>\n{JSON}\n</tool_call>\n```", id="an example, fenced"),
        pytest.param(f"You would send:\n\n```json\n{JSON}\n```\n\nand read the reply.", id="a request, fenced"),
        pytest.param(f"Here is the request:\n\n```json\n{JSON}\n```", id="a request, fenced, at the end"),
        pytest.param("The model wraps calls in `<tool_call>` and `</tool_call>`.", id="a tag in inline code"),
        pytest.param("The model wraps calls in <tool_call> tags that hold {name}.", id="a tag in a sentence"),
        pytest.param(
            f'For example, <tool_call>{JSON.replace("get_order", "get_weather")}</tool_call> asks for the weather.',
            id="an example in a sentence",
        ),
        pytest.param(
            'Set the header, then write\n<function=foo>\nThat is the opening tag, which names a function.', id="a tag"
        ),
        pytest.param('{"name": "Ann", "arguments": {"for": 1, "against": 2}}', id="an object with such fields"),
        pytest.param('{"name": "get_order", "status": "late"}', id="an object without arguments"),
        pytest.param('[{"name": "get_order"}, {"name": "cancel"}]', id="a list of names"),
        pytest.param("print('hello')", id="a program"),
        pytest.param("```python\nfor each in orders:\n    get_order(order_id=each)\n```", id="a longer program"),
        pytest.param("get_order(order_id='7731')\nfor each in (1, 2): print(each)", id="a program that begins with it"),
        pytest.param("get_order(order_id=find_order('mine'))", id="an expression"),
        pytest.param("Map functions.map:1 is fine", id="a path"),
        pytest.param('Use to=functions.x in the header.', id="a header in a sentence"),
        pytest.param('<invoke name="x"> is how an element of the schema begins, and <parameter> follows.', id="XML"),
        pytest.param("[TOOL_CALLS] is a token of Mistral's.", id="a token in a sentence"),
        pytest.param("Done.<|im_end|>", id="another token"),
        pytest.param("", id="nothing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tools", [pytest.param((ORDER,), id="known"), pytest.param((), id="none known")])
def test_an_answer_about_calls_is_none(text: str, tools: tuple[Tool, ...]) -> None:
    assert found(trace(turn("How do tool calls look?", text), tools=tools)) == []


def test_a_call_that_was_made_is_none() -> None:
    made = turn("Where is 7731?", f"<tool_call>{JSON}</tool_call>", call("get_order", {"order_id": "7731"}))
    assert found(trace(made, tools=[ORDER])) == []


def test_writing_the_final_answer_as_a_call_is_answering() -> None:
    written = f"<tool_call>{JSON.replace('get_order', 'final_answer')}</tool_call>"
    assert found(trace(turn("Where is 7731?", written))) == []


def test_a_call_with_an_invented_result_behind_it_is_found() -> None:
    text = (
        f'<tool_call>\n{JSON}\n</tool_call>\n<tool_response>\n{{"status": "shipped"}}\n</tool_response>\nIt is shipped.'
    )
    assert len(found(trace(turn("Where is 7731?", text), tools=[ORDER]))) == 1


def test_the_answer_is_not_told_again_where_a_reply_is_it() -> None:
    (finding,) = found(trace(turn("q", f"<tool_call>{JSON}</tool_call>")))
    assert finding.span_id == "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<tool_call>" * 5_000, id="tags"),
        pytest.param("<tool_call>{" * 5_000, id="tags and brackets"),
        pytest.param("[" * 50_000, id="brackets"),
        pytest.param("<|" * 25_000, id="tokens that never end"),
        pytest.param("<function=a><parameter=b>" * 2_000, id="parameters that never end"),
        pytest.param("to=functions." + "a" * 50_000, id="a long name"),
        pytest.param("to=functions.a " * 4_000, id="many channels"),
        pytest.param("get_order(" * 5_000, id="nested calls"),
        pytest.param("functions.a:1" + " " * 50_000, id="spaces"),
        pytest.param("```" * 15_000 + "`", id="fences"),
        pytest.param("`a" * 25_000, id="backticks"),
        pytest.param('{"name":' * 6_000, id="objects"),
        pytest.param("\n{" * 25_000, id="lines that begin with a bracket"),
        pytest.param("\n[" + " " * 49_000, id="a bracket and spaces"),
        pytest.param("<a b=" * 10_000, id="open tags"),
        pytest.param("<tool_call>" + "json " * 10_000, id="fillers"),
        pytest.param("default_api.a(" + "(" * 40_000, id="open brackets"),
        pytest.param("a(" + "b=1, " * 10_000, id="arguments that never end"),
        pytest.param("a('" + "\\\\'" * 16_000, id="a text that never ends"),
        pytest.param("a(1) " * 10_000 + "a(", id="many calls"),
        pytest.param("default_api.a(" + "()" * 20_000, id="brackets in brackets"),
    ],
)
def test_a_hostile_text_takes_no_time(text: str) -> None:
    started = time.process_time()
    written_calls(text)
    written_calls(text + "x")
    assert time.process_time() - started < 1


def test_the_evidence_is_the_call_and_not_what_stands_before_it() -> None:
    (finding,) = found(trace(turn("q", f"{'Let me see. ' * 100}\n<tool_call>{JSON}</tool_call>"), tools=[ORDER]))
    assert (
        finding.reason
        == f"a call of get_order was written as text instead of being made: <tool_call>{JSON}</tool_call>"
    )
