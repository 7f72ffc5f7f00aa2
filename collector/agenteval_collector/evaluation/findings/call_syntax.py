"""Tool calls that stand in a text, in the syntaxes that models are trained to write them in.

A model writes its calls as text, and what serves it turns that into calls. If this fails, the text stands in the
reply: *marked* by tags or special tokens (`<tool_call>`, `[TOOL_CALLS]`, `<|python_tag|>`, `to=functions.x`), or
*bare*, as a JSON object or a call in Python. Code that is quoted beside other words is about calls, and none, unless
little stands before it and nothing behind. The end of a text is looked at, and a bounded number of calls in it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

MAX_TEXT: Final = 50_000
"""Characters at the end of a text that are searched."""
MAX_LEAD: Final = 200
"""Characters that may stand before a call in a fence."""
MAX_MARKS: Final = 50
"""Marks, or beginnings of JSON, that are tried at most."""

_SIGNS: Final = ("<", "[", "{", "(", "Action Input:")
"""Signs of a call. A text without any of them has no call, so most replies are not searched."""

_NAME: Final = r"[A-Za-z_][\w.\-/]{0,127}+"
_BAR: Final = "[|｜]"
_TOKEN: Final = rf"<{_BAR}[^<>=]{{1,60}}>"
# MiniMax, Seed and others put their own name before that of a tag.
_PREFIX: Final = rf"(?:\w{{1,20}}:|{_BAR}DSML{_BAR})?"
# Behind these stands a call, in JSON or by its name.
_OPENS: Final = (
    rf"<{_PREFIX}(?:tool_?calls?|function_?calls?|tool_use|tool_code)>"
    rf"|<{_BAR}(?:tool[_▁]?calls?(?:[_▁]section)?(?:[_▁](?:begin|start))?|python_tag|START_ACTION|plugin){_BAR}>"
    r"|\[TOOL_CALLS?\]"
)
# These name the tool themselves.
_NAMES: Final = (
    rf"<(?:function|invoke)=[\"']?(?P<tag>{_NAME})[\"']?>"
    rf"|<{_PREFIX}(?:invoke|function|tool_call) name=[\"'](?P<invoke>{_NAME})[\"'][^<>]{{0,100}}>"
    rf"|\bto=(?:functions|tools)\.(?P<harmony>{_NAME})(?=[^{{]{{0,80}}\{{)"
    rf"|\bfunctions\.(?P<kimi>{_NAME}):\d{{1,4}}(?=\s{{0,9}}(?:{_TOKEN})?\s{{0,9}}\{{)"
    rf"|\bdefault_api\.(?P<gemini>{_NAME})(?=\()"
    rf"|(?:^|\n)Action:[ \t]{{0,9}}(?P<react>{_NAME})\s{{1,9}}Action Input:"
)
_MARK: Final = re.compile(f"{_OPENS}|{_NAMES}")
_NAMED: Final = re.compile(_NAMES)
# What stands between a mark and its call, and between the call's name and its arguments.
_BETWEEN: Final = re.compile(
    rf"(?:\s|{_TOKEN}|```(?:json)?|\b(?:json|code|commentary)\b|\[\w{{1,20}}\]|function(?={_TOKEN})){{0,20}}+"
)
_BY_NAME: Final = re.compile(rf"({_NAME})(?::\d{{1,4}})?(?=\(|\s{{0,9}}(?:{_TOKEN}|```|\{{|\[ARGS\]|\[CALL_ID\]|<arg))")
_PARAMETER: Final = re.compile(
    rf"\s{{0,99}}<{_PREFIX}(?P<tag>parameter|arg_key|arg_value)\b[^<>]{{0,200}}>[^<]*+(?:<(?!/)[^<]*+)*+"
    rf"(?:</{_PREFIX}(?P=tag)>|\Z)"
)
_IN_BRACKETS: Final = re.compile(r"\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)*")
_WRAPPING: Final = re.compile(
    rf"</?{_PREFIX}[\w=\"'. -]{{1,80}}>|{_TOKEN}|</{_BAR}[^<>]{{1,60}}>|\[/?\w{{1,20}}\]|```(?:json)?"
    r"|\b(?:assistant|analysis|commentary|print)+\b"
)
_CLOSES: Final = re.compile(rf"</|<{_BAR}|\[/")

_FENCED: Final = re.compile(r"```[\w-]{0,20}[ \t]*\n?((?:[^`]|`(?!``))*+)(?:```)?")
_CODE: Final = re.compile(r"```(?:[^`]|`(?!``))*+(?:```)?|``[^`\n]++``|`[^`\n]++`")
_THOUGHT_ENDS: Final = "</think>"
_NAME_IN_JSON: Final = re.compile(rf'"(?:name|tool_name|recipient_name)"\s{{0,9}}:\s{{0,9}}"({_NAME})"')
_BEGINS_JSON: Final = re.compile(r"^[ \t]*+(?=\{|\[\s{0,99}\{)", re.MULTILINE)
_JSON_GOES_ON: Final = re.compile(r"[\s,;]{0,99}+(?=[{\[])")
_LITERAL: Final = r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|\[[^\[\]]*+\]|\{[^{}]*+\}|[\w.+-]++)"""
_ARGUMENTS: Final = rf"\(\s*+(?:(?:\w{{1,99}}\s*+=\s*+)?{_LITERAL}\s*+(?:,\s*+|(?=\))))*+\)"
_PYTHON: Final = re.compile(rf"\[?(?:print\()?({_NAME}){_ARGUMENTS}(?:[\s,;]++{_NAME}{_ARGUMENTS})*+\)?\]?")
_NAME_KEYS: Final = ("name", "tool_name", "recipient_name", "function", "tool", "action")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
_WRAPPER_KEYS: Final = ("function", "function_call", "tool_call", "tool_calls", "tool_uses")
_NAMESPACES: Final = ("functions.", "default_api.", "tools.")
_MAX_WRAPPERS: Final = 4
"""The most wrappers around a call, one inside the other."""
_TOOL: Final = re.compile(_NAME)
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class WrittenCalls:
    """The calls in a text, by the names of their `tools` in order. `excerpt` is the text from the first one on.

    `is_marked`: they are not bare. `begins`: no words stand before them, `ends`: none stand between and after them;
    `opens_line`: none stand before the first one on its line.
    """

    tools: tuple[str, ...]
    excerpt: str
    is_marked: bool = False
    begins: bool = True
    ends: bool = True
    opens_line: bool = True


def written_calls(text: str) -> WrittenCalls | None:
    """Return the calls in a text: marked ones, else bare ones, else None."""
    if not any(sign in text for sign in _SIGNS):
        return None
    text = text[-MAX_TEXT:].rpartition(_THOUGHT_ENDS)[2].strip()
    if whole := _FENCED.fullmatch(text):
        text = whole[1].strip()
    searched = _CODE.sub(lambda code: " " * len(code[0]), text)
    return _marked(text, searched) or _json(text, searched) or _python(text) or _last_fence(text)


def _marked(text: str, searched: str) -> WrittenCalls | None:
    tools: list[str] = []
    begins = ends = opens_line = True
    first = position = cursor = 0
    for _ in range(MAX_MARKS):
        mark = _MARK.search(searched, cursor)
        if mark is None:
            break
        called, end = _call_at(text, mark)
        cursor = mark.end()
        if not called:
            continue
        before = text[position : mark.start()]
        if not tools:
            first = mark.start()
            begins, opens_line = not _says_something(before), not _says_something(before.rpartition("\n")[2])
        else:
            ends = ends and not _says_something(before)
        tools += called
        position = cursor = max(end, mark.end())
    ends = ends and not _says_something(text[position:])
    return WrittenCalls(tuple(map(_plain, tools)), text[first:], True, begins, ends, opens_line) if tools else None


def _call_at(text: str, mark: re.Match[str]) -> tuple[list[str], int]:
    """Return the tools called behind a mark, and the end of the call. No tools if something else stands there."""
    name, position = mark[mark.lastgroup] if mark.lastgroup else None, mark.end()
    if name is None:
        position = _after(_BETWEEN, text, position)
        if in_python := _PYTHON.match(text, position):
            return [in_python[1]], in_python.end()
        if text[position : position + 1] in ("{", "["):
            return _objects(text, position, is_marked=True)
        named = _NAMED.match(text, position) or _BY_NAME.match(text, position)
        if named is None:
            return [], position
        name, position = next(filter(None, named.groups())), named.end()
    return [name], _end_of_arguments(text, position)


def _end_of_arguments(text: str, position: int) -> int:
    position = _after(_BETWEEN, text, position)
    if text[position : position + 1] == "{":
        return _decoded(text, position)[1]
    if in_brackets := _IN_BRACKETS.match(text, position):
        return in_brackets.end()
    while parameter := _PARAMETER.match(text, position):
        position = parameter.end()
    return position


def _json(text: str, searched: str) -> WrittenCalls | None:
    """Return bare calls in JSON, up to the end of the text."""
    for count, line in enumerate(_BEGINS_JSON.finditer(searched)):
        if count == MAX_MARKS:
            break
        tools, end = _objects(text, line.end(), is_marked=False)
        if tools and end == len(text):
            return WrittenCalls(tuple(map(_plain, tools)), text[line.start() :], begins=not line.start())
    return None


def _python(text: str) -> WrittenCalls | None:
    """Return a bare call in Python, or a list of them, that is the whole text."""
    call = _PYTHON.fullmatch(text)
    return WrittenCalls((_plain(call[1]),), text) if call else None


def _last_fence(text: str) -> WrittenCalls | None:
    """Return bare calls in a fence that ends the text, after a few words at most. More words, or words that end in a
    colon, explain the calls and show an example."""
    fences = [*_FENCED.finditer(text)]
    if not fences or fences[-1].end() != len(text) or fences[-1].start() > MAX_LEAD:
        return None
    if text[: fences[-1].start()].rstrip().endswith(":"):
        return None
    inside = fences[-1][1].strip()
    called = _json(inside, inside)
    return replace(called, begins=False) if called and called.begins else None


def _objects(text: str, position: int, *, is_marked: bool) -> tuple[list[str], int]:
    """Return the tools that the JSON from `position` on calls, and the end of it. No tools if a part of it calls
    none."""
    tools: list[str] = []
    more: re.Match[str] | None = None
    while not tools or more:
        value, position = _decoded(text, more.end() if more else position)
        called = [*_tools_in(value, _MAX_WRAPPERS, is_marked=is_marked)]
        if not called or len(tools) > MAX_MARKS:
            break
        tools += called
        more = _JSON_GOES_ON.match(text, position)
    return (tools, position) if called else ([], position)


def _decoded(text: str, position: int) -> tuple[Any, int]:
    """Return the JSON at `position`, and its end. Of JSON that is broken or cut, return the tool's name in it, up to
    the next tag or token."""
    try:
        value, end = _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        closes = _CLOSES.search(text, position)
        end = closes.start() if closes else len(text)
        named = _NAME_IN_JSON.search(text, position, min(end, position + 1_000))
        return {"name": named[1]} if named else None, end
    return value, end


def _tools_in(value: Any, depth: int, *, is_marked: bool) -> Iterator[str]:
    """Yield the tools that decoded JSON calls. Without a mark, a call needs arguments."""
    if isinstance(value, list) and depth:
        for mark in value[:MAX_MARKS]:
            yield from _tools_in(mark, depth - 1, is_marked=is_marked)
    if not isinstance(value, dict):
        return
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is not None and (is_marked or any(key in value for key in _ARGUMENT_KEYS)) and _TOOL.fullmatch(name):
        yield name
    elif depth:
        for key in _WRAPPER_KEYS:
            if isinstance(value.get(key), dict | list):
                yield from _tools_in(value[key], depth - 1, is_marked=is_marked)


def _says_something(text: str) -> bool:
    """Return whether there are words in the text, and not only what is usually put around calls."""
    return any(character.isalnum() for character in _WRAPPING.sub("", text))


def _after(expression: re.Pattern[str], text: str, position: int) -> int:
    match = expression.match(text, position)
    return match.end() if match else position


def _plain(tool: str) -> str:
    """Return the tool's own name, without the namespace in which a model was shown it."""
    for namespace in _NAMESPACES:
        tool = tool.removeprefix(namespace)
    return tool.removesuffix(".call")
