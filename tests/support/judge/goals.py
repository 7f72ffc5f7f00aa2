"""A judge that is asked about whole sessions alone, and the settings of a collector that asks it so."""

import json
import re
from typing import Any

from agenteval_collector.judge.panel import JUDGED

from tests.support.judge.completions import Received
from tests.support.judge.filling import fill

GOAL = "A refund for order 7."
ONLY_GOALS = {name: {"enabled": False} for name in JUDGED}
"""The section `evaluators`: of all that are judged, only goals are."""


def is_about_goal(received: Received) -> bool:
    """Whether a request asks whether a session reached its goal."""
    return received.schema is not None and "failed_turn" in received.schema["properties"]


def goal_reply(received: Received, score: float = 0.25) -> str | None:
    """A `Responder`: whole sessions fail in their last turn; other questions are filled in."""
    if received.schema is None or not is_about_goal(received):
        return None
    [last] = re.findall(r"from 1 to (\d+)", received.schema["properties"]["failed_turn"]["description"])
    return json.dumps({**fill(received.schema, score), "goal": GOAL, "failed_turn": int(last)})


def goal_of(session: Any) -> Any:
    """The outcome of the goal in a session's document; None where there is none."""
    found = [each for each in session["outcomes"] if each["name"] == "goal_success"] if session else []
    return found[0] if found else None
