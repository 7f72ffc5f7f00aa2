"""Takes the pictures of all pages but those of sessions, from a store with sample agents."""

import base64
from collections.abc import Mapping
from pathlib import Path

from agenteval_collector.model.problem import ProblemFilter
from agenteval_collector.serve.api.queries import Queries

from tests.support.agent_history import AGENTS, NOW, served_history
from tests.support.browser import Tab, open_tab
from tests.support.clock import ManualClock
from tests.support.memory_queries import GOOD_TRACE, MemoryQueries
from tests.support.pages import app_of
from tests.support.travel_agent import travel_agent
from tests.support.web_server import serve

VIEWS = {
    "problems": "/problems",
    "agents": "/agents?range=7d",
    "agent": f"/agents/{AGENTS[0]}?range=7d",
    "quality": "/quality",
    "reliability": f"/reliability?agent={AGENTS[0]}&version=1.5.0",
    "comparison": f"/reliability?agent={AGENTS[0]}&before=1.4.0&after=1.5.0",
}
"""The views by the names of their pictures."""
SIZES = {"": (1280, 1700, "light"), "-phone": (390, 1300, "dark")}
"""What is added to a name, and the width, the greatest height and the scheme."""


def take_figure_pictures(binary: str, folder: Path, into: Path) -> None:
    """Write a picture of each view for a desktop, and one for a phone."""
    into.mkdir(exist_ok=True)
    (folder / "history").mkdir()
    with open_tab(binary, folder / "figures") as tab:
        with served_history(folder / "history") as queries:
            problem = queries.problems(ProblemFilter()).items[1]["problem_id"]
            _take(tab, queries, {**VIEWS, "problem": f"/problems/{problem}"}, into)
        asked = travel_agent()
        asked.judged = [GOOD_TRACE]
        _take(tab, asked, {"review": "/review?name=task_completion"}, into)


def _take(tab: Tab, queries: Queries | MemoryQueries, views: Mapping[str, str], into: Path) -> None:
    app = app_of(queries, clock=ManualClock(NOW))
    with serve(app) as url:
        for name, path in views.items():
            for suffix, (width, height, scheme) in SIZES.items():
                tab.resize(width)
                tab.prefer(scheme)
                tab.open(url + path)
                (into / f"{name}{suffix}.webp").write_bytes(_picture(tab, width, height))


def _picture(tab: Tab, width: int, height: int) -> bytes:
    shown = min(height, tab.evaluate("document.querySelector('main').getBoundingClientRect().bottom"))
    clip = {"x": 0, "y": 0, "width": width, "height": shown, "scale": 1}
    shot = tab.send("Page.captureScreenshot", format="webp", quality=60, captureBeyondViewport=True, clip=clip)
    return base64.b64decode(shot["data"])
