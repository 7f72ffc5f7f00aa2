"""Makes docs/demo.svg and docs/page.png from what a real collector says of the sample agents.

    python -m tests.support.pictures

The picture of the page takes a Chromium; without one it stays as it is.
"""

import base64
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from agenteval_collector.cli.demo_view import demo_view, sample_traces
from agenteval_collector.demo.agents import play
from agenteval_collector.demo.scripts import SCRIPTS
from rich.console import Console

from tests.support.browser import chromium, open_tab
from tests.support.eventually import eventually
from tests.support.running_collector import RunningCollector

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = 110
PAGE_WIDTH = 1280


def main() -> None:
    """Let the sample agents talk to a collector, and picture the result."""
    with TemporaryDirectory() as folder, RunningCollector(Path(folder)) as collector:
        made = sum(play(script, f"http://{collector.addresses['grpc']}", lambda _seconds: None) for script in SCRIPTS)
        queries = collector.service.queries
        eventually(lambda: len(sample_traces(queries)) == made)
        console = Console(file=StringIO(), record=True, width=COLUMNS, force_terminal=True)
        console.print("$ agenteval demo\n", demo_view(queries, COLUMNS))
        (DOCS / "demo.svg").write_text(console.export_svg(title="agenteval demo") + "\n")
        if (binary := chromium()) is None:
            print("docs/page.png stays as it is: there is no Chromium on this machine")
            return
        (DOCS / "page.png").write_bytes(_picture(binary, f"http://{collector.addresses['web']}/", Path(folder)))


def _picture(binary: str, url: str, folder: Path) -> bytes:
    with open_tab(binary, folder / "profile") as tab:
        tab.resize(PAGE_WIDTH)
        tab.prefer("light")
        tab.open(url)
        bottom = tab.evaluate("document.querySelector('table.sessions').getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": PAGE_WIDTH, "height": bottom + 24, "scale": 1}
        return base64.b64decode(tab.send("Page.captureScreenshot", format="png", clip=clip)["data"])


if __name__ == "__main__":
    main()
