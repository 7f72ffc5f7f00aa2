"""Loops in public logs of real agents: how many are found, and how many alarms are right.

A log is sent as spans of GenAI through the agent's watch, and through the reader of complete traces. It loops if one
call, with the same arguments, told the same three times; Magentic-One's logs loop if the orchestrator's ledger says
`is_in_loop` three times or more. The ledger is not sent. Nothing of the logs is kept here:

    ag2ai/Agents_Failure_Attribution   a folder of Who&When: `Algorithm-Generated` or `Hand-Crafted`
    noahshinn/reflexion                hotpotqa_runs/root/ReAct/*/100_questions_5_trials.txt
    sierra-research/tau-bench          historical_trajectories/*.json

    python -m benchmarks.loops_public PATH [PATH ...] [--half 0|1] [--show]
"""

import argparse
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from otel_agenteval.finding import Finding
from tests.support.wire import Act, GenAI, Stage

REPEATS: Final = 3
"""Equal calls, or entries of the ledger, that make a log one of a loop."""

_ACTION: Final = re.compile(r"Thought (?P<number>\d+): ?(?P<thought>.*)\nAction (?P=number): ?(?P<action>.*)\n")
_CALL: Final = re.compile(r"(?P<tool>\w+)\[(?P<argument>.*)\]\s*$", re.DOTALL)
_OBSERVED: Final = re.compile(r"Observation \d+: ?(?P<result>.*?)(?=\nThought \d+:|\nCorrect answer: |\Z)", re.DOTALL)
_PAGE: Final = re.compile(r"Address: (?P<address>[^\n]*)")
_CODE: Final = re.compile(r"```(?:python|sh|bash)\n(?P<code>.*?)```", re.DOTALL)
_IN_LOOP: Final = re.compile(r'"is_in_loop":\s*\{[^{}]*"answer":\s*true', re.DOTALL)
_DONE: Final = re.compile(r"I (?P<verb>\w+)(?P<rest>[^\n]*)")
_QUOTED: Final = re.compile(r"'([^'\n]*)'|\[([^\]\n]*)\]")


@dataclass(frozen=True, slots=True)
class Log:
    """The recorded runs of agents, one after the other, or the steps of one agent."""

    name: str
    runs: Sequence[tuple[str, Sequence[Act]]]
    loops: bool
    is_conversation: bool = False


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--half", type=int, choices=(0, 1), help="only logs of even or of odd number")
    parser.add_argument("--show", action="store_true", help="name the logs in which something was told, or missed")
    given = parser.parse_args()
    for path in given.paths:
        logs = [log for number, log in enumerate(logs_in(path)) if given.half in (None, number % 2)]
        report(path, [(log, found_in(log)) for log in logs], show=given.show)


def report(path: Path, looked_at: Sequence[tuple[Log, list[Finding]]], *, show: bool) -> None:
    """Print precision and recall, of all that was found and of alarms."""
    print(f"{path}: {len(looked_at)} logs, {sum(log.loops for log, _ in looked_at)} of them with a loop")
    for what, counts in (("found", lambda _: True), ("alarms", lambda finding: finding.is_alarm)):
        hits = [(log, any(map(counts, found))) for log, found in looked_at]
        right = sum(log.loops for log, is_hit in hits if is_hit)
        told, looping = sum(is_hit for _, is_hit in hits), sum(log.loops for log, _ in hits)
        print(f"  {what}: {told}; precision {right}/{told}, recall {right}/{looping}")
    kinds = Counter(f"{finding.kind}{'' if finding.is_alarm else '?'}" for _, found in looked_at for finding in found)
    print(f"  {dict(kinds)}")
    for log, found in looked_at if show else ():
        if found or log.loops:
            told_of = "; ".join(f"{'ALARM' if each.is_alarm else 'seen'} {each.kind}: {each.reason}" for each in found)
            print(f"    {'loop' if log.loops else 'fine'} {log.name}: {told_of or 'MISSED'}")


def found_in(log: Log) -> list[Finding]:
    """Return the loops that the agent's watch finds. Raises ValueError if the complete trace shows others."""
    stage = Stage(GenAI())
    if log.is_conversation:
        [(_, steps)] = log.runs
        stage.converse(steps)
    else:
        stage.play(log.runs)
    found = stage.told_in_the_agent()
    complete = stage.told_when_complete()
    if sorted(each.kind for each in found) != sorted(each.kind for each in complete):
        raise ValueError(f"{log.name}: the agent found {found}, the collector {complete}")
    return found


def logs_in(path: Path) -> Iterator[Log]:
    """Yield the logs of a file or a folder. Raises ValueError if it has another form."""
    if path.is_dir():
        for file in sorted(path.glob("*.json"), key=lambda file: (len(file.name), file.name)):
            yield who_and_when(file.name, json.loads(file.read_text("utf-8"))["history"])
    elif path.suffix == ".txt":
        yield from react(path.read_text("utf-8"))
    elif path.suffix == ".gz":
        yield from sessions(json.loads(gzip.decompress(path.read_bytes())))
    elif path.suffix == ".json":
        yield from tau_bench(json.loads(path.read_text("utf-8")))
    else:
        raise ValueError(f"{path} is no folder, .txt, .json or .json.gz")


def repeats(runs: Sequence[tuple[str, Sequence[Act]]]) -> bool:
    """Return whether one call, with the same arguments, told the same `REPEATS` times."""
    told: Counter[str] = Counter(
        json.dumps(act[1:]) for _, acts in runs for act in acts if act[0] in ("calls", "fails")
    )
    return max(told.values(), default=0) >= REPEATS


# --- Who&When ---


def who_and_when(name: str, history: Sequence[dict[str, str]]) -> Log:
    """Read a log of agents that speak in turns."""
    if any(message["role"].startswith("Orchestrator") for message in history):
        in_loop = sum(_IN_LOOP.search(message["content"]) is not None for message in history)
        return Log(name, _joined(_magentic_one(history)), in_loop >= REPEATS)
    runs = _joined(_captain(history))
    return Log(name, runs, repeats(runs))


def _magentic_one(history: Sequence[dict[str, str]]) -> Iterator[tuple[str, Act]]:
    """Yield who did what. What an agent says that it did is a call, and what it saw then the call's result."""
    asked = ""
    for message in history:
        role, content = message["role"], message["content"]
        if role.startswith("Orchestrator (->"):
            asked = content
            yield "Orchestrator", ("says", content)
        elif role == "ComputerTerminal":
            yield role, ("calls", "execute", {"code": asked}, content)
        elif role in ("WebSurfer", "FileSurfer"):
            yield role, _surfed(content)
        elif role == "Assistant":
            code = _CODE.search(content)
            asked = code["code"] if code is not None else asked
            yield role, ("says", content)


def _surfed(content: str) -> Act:
    page = _PAGE.match(content)
    if page is not None:
        return ("calls", "open", {"address": page["address"]}, content)
    done = _DONE.match(content)
    if done is None:
        return ("says", content)
    targets = [quoted or bracketed for quoted, bracketed in _QUOTED.findall(done["rest"])]
    return ("calls", done["verb"], {"targets": targets or [done["rest"]]}, content[done.end() :].strip())


def _captain(history: Sequence[dict[str, str]]) -> Iterator[tuple[str, Act]]:
    """Yield who did what: words, pages that were opened, and code that the terminal runs for the one who spoke last."""
    speaker, code = "", None
    for message in history[1:]:
        name, content = message.get("name", message["role"]), message["content"]
        if name == "Computer_terminal":
            failed = not content.startswith("exitcode: 0")
            if code is not None:
                yield speaker, ("fails" if failed else "calls", "execute_code", {"code": code}, content)
            continue
        speaker, page = name, _PAGE.match(content)
        code = "\n".join(_CODE.findall(content)) or None
        if page is not None:
            yield name, ("calls", "browse", {"address": page["address"]}, content)
        else:
            yield name, ("says", content or "TERMINATE")


def _joined(acts: Iterator[tuple[str, Act]]) -> list[tuple[str, list[Act]]]:
    runs: list[tuple[str, list[Act]]] = []
    for agent, act in acts:
        if not runs or runs[-1][0] != agent:
            runs.append((agent, []))
        runs[-1][1].append(act)
    return runs


# --- HotpotQA, tau-bench, and sessions kept as JSON ---


def react(text: str) -> Iterator[Log]:
    """Read trajectories of ReAct."""
    for number, written in enumerate(re.split(r"^Question: ", text, flags=re.MULTILINE)[1:]):
        acts: list[Act] = []
        for step in _ACTION.finditer(written):
            call = _CALL.match(step["action"])
            seen = _OBSERVED.match(written, step.end())
            if call is not None and seen is not None and call["tool"] != "Finish":
                acts.append(("calls", call["tool"], {"input": call["argument"]}, seen["result"].strip()))
        runs = [("react", acts)]
        yield Log(f"{number} {written[:60].splitlines()[0]}", runs, repeats(runs), is_conversation=True)


def tau_bench(tasks: Sequence[dict[str, Any]]) -> Iterator[Log]:
    """Read conversations of tau-bench."""
    for number, task in enumerate(tasks):
        acts: list[Act] = []
        asked: dict[str, Any] = {}
        for message in task["traj"]:
            if message["role"] == "user":
                acts.append(("asks", message["content"]))
            elif message["role"] == "tool":
                asked_for = asked.pop(message["tool_call_id"])
                acts.append(("calls", asked_for["name"], json.loads(asked_for["arguments"]), message["content"]))
            else:
                calls = message.get("tool_calls") or []
                asked |= {call["id"]: call["function"] for call in calls}
                if not calls:
                    acts.append(("says", message["content"]))
        runs = [("tau", acts)]
        yield Log(f"{number} reward {task['reward']}", runs, repeats(runs), is_conversation=True)


def sessions(kept: dict[str, Any]) -> Iterator[Log]:
    """Read sessions of `{sessions: [{id, success, turns: [{user, steps}]}]}`."""
    for session in kept["sessions"]:
        acts: list[Act] = []
        for turn in session["turns"]:
            acts.append(("asks", turn["user"]))
            for kind, *step in turn["steps"]:
                if kind == "t":
                    _, tool, arguments, result, error = step
                    acts.append(("fails", tool, arguments, error) if error else ("calls", tool, arguments, result))
                elif step[0] and not step[1]:
                    acts.append(("says", step[0]))
        runs = [(kept["agent"], acts)]
        yield Log(f"{session['id']} success {session['success']}", runs, repeats(runs), is_conversation=True)


if __name__ == "__main__":
    main()
