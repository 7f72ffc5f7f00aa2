"""Writes the JSON of docs/api.md from what a real collector answers about the sample agents.

    python -m tests.support.api_examples

A block stands below a line `<!-- made: NAME -->`. Of each list it has the first entry, and of a trace's outcomes one.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS
from agenteval_collector.cli.run_demo import sample_traces
from agenteval_collector.serve.api.queries import Queries

from tests.support.eventually import eventually
from tests.support.running_collector import RunningCollector

PAGE: Final = Path(__file__).parents[2] / "docs" / "api.md"
BLOCK: Final = re.compile(r"(<!-- made: (\w+) -->\n```json\n)(.*?)(\n```)", re.DOTALL)
DOCUMENTS: Final = {"trace": "TraceDocument", "session": "SessionDocument", "problem": "ProblemDocument"}
"""The examples of the page, by the schema of each in the API's description."""
SESSION: Final = "demo-failing-tools"
COLUMNS: Final = 110


def main() -> None:
    """Let the sample agents talk to a collector, and put its answers into the page."""
    with TemporaryDirectory() as folder, RunningCollector(Path(folder)) as collector:
        made = sum(play(script, f"http://{collector.addresses['grpc']}", lambda _seconds: None) for script in SCRIPTS)
        queries = collector.service.pipeline.queries
        eventually(lambda: len(sample_traces(queries)) == made)
        examples = answers(queries)
    written = BLOCK.sub(lambda block: block[1] + examples[block[2]] + block[4], PAGE.read_text())
    PAGE.write_text(written)


def answers(queries: Queries) -> Mapping[str, str]:
    """Return the shortened JSON of each example, by its name."""
    session = queries.session(SESSION)
    assert session is not None
    trace = queries.trace(session["trace_ids"][0])
    assert trace is not None
    trace["outcomes"] = [outcome for outcome in trace["outcomes"] if outcome["score"] is not None]
    trace["findings"] = [finding for finding in trace["findings"] if finding["kind"] == "tool_failed"]
    problem = queries.problems(limit=1).items[0]
    shown = {"trace": trace, "session": session, "problem": problem}
    return {name: layout(shortened(document)) for name, document in shown.items()}


def shortened(value: Any) -> Any:
    """Return the value with the first entry of each list; lists of numbers stay."""
    if isinstance(value, dict):
        return {key: shortened(entry) for key, entry in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], int)):
        return [shortened(entry) for entry in value[:1]]
    return value


def layout(value: Any, indent: int = 0) -> str:
    """Return JSON that breaks lines only if it is too long; short fields share a line."""
    whole = json.dumps(value)
    if indent + len(whole) <= COLUMNS or not isinstance(value, dict | list) or not value:
        return whole
    inner = indent + 1
    lines: list[str] = []
    for key, entry in value.items() if isinstance(value, dict) else ((None, entry) for entry in value):
        name = "" if key is None else f"{json.dumps(key)}: "
        field = name + layout(entry, inner + len(name))
        if lines and inner + len(lines[-1]) + len(field) < COLUMNS and "\n" not in lines[-1] + field:
            lines[-1] += f", {field}"
        else:
            lines.append(field)
    start, end = "{}" if isinstance(value, dict) else "[]"
    return start + f",\n{' ' * inner}".join(lines) + end


if __name__ == "__main__":
    main()
