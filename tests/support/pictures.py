"""Makes docs/demo.svg, docs/page.png and docs/pictures from what a real collector says of the sample agents.

    python -m tests.support.pictures

The pictures of the page take a Chromium; without one they stay as they are.
"""

import base64
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS
from agenteval_collector.cli.run_demo import demo_view, sample_traces
from rich.console import Console

from tests.support.browser import chromium, open_tab
from tests.support.eventually import eventually
from tests.support.figure_pictures import take_figure_pictures
from tests.support.running_collector import RunningCollector

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = 110
PAGE_WIDTH = 1280
FAILING = "demo-failing-tools"


def main() -> None:
    """Let the sample agents talk to a collector, and picture the result."""
    with TemporaryDirectory() as folder, RunningCollector(Path(folder)) as collector:
        made = sum(play(script, f"http://{collector.addresses['grpc']}", lambda _seconds: None) for script in SCRIPTS)
        queries = collector.service.pipeline.queries
        eventually(lambda: len(sample_traces(queries)) == made)
        console = Console(file=StringIO(), record=True, width=COLUMNS, force_terminal=True)
        console.print("$ agenteval demo\n", demo_view(queries, COLUMNS))
        (DOCS / "demo.svg").write_text(console.export_svg(title="agenteval demo") + "\n")
        if (binary := chromium()) is None:
            print("docs/page.png and docs/pictures stay as they are: there is no Chromium on this machine")
            return
        take_figure_pictures(binary, Path(folder), DOCS / "pictures")
        url = f"http://{collector.addresses['web']}"
        (DOCS / "page.png").write_bytes(_picture(binary, f"{url}/", Path(folder)))
        failing = queries.session(FAILING)
        assert failing is not None
        trace_id = failing["trace_ids"][0]
        views = {
            "sessions": f"{url}/sessions?order=attention",
            "session": f"{url}/sessions/demo-stuck",
            "trace": f"{url}/traces/{trace_id}",
        }
        _views(binary, views, Path(folder))


def _views(binary: str, views: Mapping[str, str], folder: Path) -> None:
    """Picture each view on a desktop and, in the dark, on a phone."""
    with open_tab(binary, folder / "profile-of-views") as tab:
        for name, url in views.items():
            for suffix, width, height, scheme in (("", PAGE_WIDTH, 900, "light"), ("-phone", 390, 844, "dark")):
                tab.resize(width)
                tab.prefer(scheme)
                tab.open(url)
                clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                shot = tab.send("Page.captureScreenshot", format="webp", quality=70, clip=clip)
                (DOCS / "pictures" / f"{name}{suffix}.webp").write_bytes(base64.b64decode(shot["data"]))


def _picture(binary: str, url: str, folder: Path) -> bytes:
    with open_tab(binary, folder / "profile") as tab:
        tab.resize(PAGE_WIDTH)
        tab.prefer("light")
        tab.open(url)
        bottom = tab.evaluate("document.querySelector('table.sessions').getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": PAGE_WIDTH, "height": bottom + 24, "scale": 1}
        shot = tab.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main()
