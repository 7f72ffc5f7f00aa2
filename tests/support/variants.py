"""Variants of behaviours: the same doing in other names, envelopes, times, notation, languages and orders.

A variant of a loop is a loop, and one of work is work. What is chosen follows from a seed and the behaviour.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.support.wire import Act

Behaviour = Mapping[str, Any]
Vary = Callable[[random.Random, list[Act]], list[Act]]

_PHRASES: Final = (
    ("No results found", "Keine Ergebnisse gefunden", "Aucun résultat trouvé", "No se encontraron resultados"),
    ("no results", "keine Ergebnisse", "aucun résultat", "sin resultados"),
    ("not found", "nicht gefunden", "introuvable", "no encontrado"),
    ("permission denied", "Zugriff verweigert", "accès refusé", "permiso denegado"),
    ("timeout", "Zeitüberschreitung", "délai dépassé", "tiempo de espera agotado"),
)
"""What tools say in English, German, French and Spanish."""


def varied(behaviour: Behaviour, kind: str, seed: int) -> list[Act]:
    """The steps of a variant of this kind."""
    chance = random.Random(f"{seed}{kind}{behaviour['does']}")
    return VARIATIONS[kind](chance, [list(step) for step in behaviour["steps"]])


def _results(steps: list[Act], change: Callable[[int, Any], Any]) -> list[Act]:
    """Return the steps with other results. `change` gets the number of the call."""
    count = 0

    def changed(step: Act) -> Act:
        nonlocal count
        does, *what = step
        if does == "calls":
            count += 1
            tool, arguments, result, *seconds = what
            told = result if result is None or result == "" else change(count, result)
            return [does, tool, arguments, told, *seconds]
        if does == "at once":
            return [does, [changed(call) for call in what[0]]]
        if does == "delegates":
            agent, arguments, inner, answer = what
            return [does, agent, arguments, [changed(act) for act in inner], answer]
        return step

    return [changed(step) for step in steps]


def _calls(steps: list[Act], change: Callable[[str, Any], tuple[str, Any]]) -> list[Act]:
    """Return the steps with other tools and arguments."""

    def changed(step: Act) -> Act:
        does, *what = step
        if does in ("calls", "fails"):
            tool, arguments, *rest = what
            return [does, *change(tool, arguments), *rest]
        if does == "at once":
            return [does, [changed(call) for call in what[0]]]
        if does == "delegates":
            agent, arguments, inner, answer = what
            return [does, agent, arguments, [changed(act) for act in inner], answer]
        return step

    return [changed(step) for step in steps]


def _server(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Name the tools as a server of MCP or a plugin does."""
    write = chance.choice(("mcp__hub__{}", "hub.{}", "functions.{}", "hub-{}", "use_{}"))
    return _calls(steps, lambda tool, arguments: (write.format(tool), arguments))


def _camel(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Write the names of tools and of fields in another style."""

    def camel(name: str) -> str:
        first, *others = name.split("_")
        return first + "".join(word.capitalize() for word in others)

    def keys(value: Any) -> Any:
        return {camel(key): item for key, item in value.items()} if isinstance(value, dict) else value

    steps = _calls(steps, lambda tool, arguments: (camel(tool), keys(arguments)))
    return _results(steps, lambda _, result: keys(result))


def _enveloped(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Put results into what frameworks put around them."""

    def text(result: Any) -> str:
        return result if isinstance(result, str) else json.dumps(result)

    envelopes: tuple[Callable[[int, Any], Any], ...] = (
        lambda n, result: {"content": [{"type": "text", "text": text(result)}], "isError": False},
        lambda n, result: {"jsonrpc": "2.0", "id": n, "result": {"content": [{"type": "text", "text": text(result)}]}},
        lambda n, result: {"type": "tool", "content": text(result), "tool_call_id": f"call_{chance.getrandbits(48):x}"},
        lambda n, result: json.dumps(text(result)),
        lambda n, result: {"output": result, "metadata": {"call": n}},
    )
    return _results(steps, chance.choice(envelopes))


def _timed(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Let results tell of their calls, in fields whose names say so, or in a line of a log."""
    fields: Callable[[int], dict[str, Any]] = chance.choice((
        lambda n: {"took_ms": chance.randrange(3, 900), "request_id": f"{chance.getrandbits(64):016x}"},
        lambda n: {"timestamp": 1795341600 + 7 * n, "duration": chance.random()},
        lambda n: {"fetched_at": f"2026-11-22T10:{n % 60:02d}:{chance.randrange(60):02d}Z", "attempt": n},
    ))  # fmt: skip
    return _results(
        steps,
        lambda n, result: (
            {**result, **fields(n)}
            if isinstance(result, dict)
            else f"{result}\n(in {chance.random() * 5:.2f} s)"
            if isinstance(result, str) and not result.lstrip().startswith(("[", "{"))
            else result
        ),
    )


def _volatile(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Let results tell of their calls in fields that nobody knows by their names."""
    first, other = chance.sample(("zq", "blip", "lot_no", "wert", "charge", "corr", "stempel", "vez"), 2)

    def changed(n: int, result: Any) -> Any:
        noise = {first: f"{chance.getrandbits(40):010x}", other: chance.randrange(1000, 99999)}
        if isinstance(result, dict):
            return {**result, **noise}
        if isinstance(result, list):
            return {"items": result, **noise}
        if isinstance(result, str) and not result.lstrip().startswith(("[", "{")):
            return f"{result}\n{first} {noise[first]} {other} {noise[other]}"
        return result

    return _results(steps, changed)


def _reordered(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Write objects in another order of their keys, with white space."""

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            pairs = [(key, shuffled(item)) for key, item in value.items()]
            chance.shuffle(pairs)
            return dict(pairs)
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    def result(_: int, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(shuffled(value), indent=chance.choice((None, 1, 2)))

    return _results(_calls(steps, lambda tool, arguments: (tool, shuffled(arguments))), result)


def _translated(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Let tools speak another language, where they say what is in `_PHRASES`."""
    language = chance.randrange(1, 4)

    def said(text: str) -> str:
        for phrase in _PHRASES:
            text = text.replace(phrase[0], phrase[language]).replace(phrase[0].capitalize(), phrase[language])
        return text

    def result(_: int, value: Any) -> Any:
        return said(value) if isinstance(value, str) else json.loads(said(json.dumps(value)))

    steps = [[*step[:3], said(step[3])] if step[0] == "fails" else step for step in steps]
    return _results(steps, result)


def _thoughtful(chance: random.Random, steps: list[Act]) -> list[Act]:
    """Let the agent say what it does before some of its calls, in other words each time."""
    words = ("Now", "Let me see", "Next", "I go on", "Once more", "So", "Then", "Well")
    talking: list[Act] = []
    for number, step in enumerate(steps):
        if step[0] == "calls" and chance.random() < 0.5:
            talking.append(["says", f"{chance.choice(words)}: step {number} is a call of {step[1]}."])
        talking.append(step)
    return talking


VARIATIONS: Final[dict[str, Vary]] = {
    "as they are": lambda _, steps: steps,
    "names of a server": _server,
    "camel case": _camel,
    "envelopes": _enveloped,
    "times and ids": _timed,
    "unknown fields": _volatile,
    "order of keys": _reordered,
    "languages": _translated,
    "words between": _thoughtful,
}
