"""`agenteval`, with all its commands."""

import typer

from agenteval_collector.cli.collector import collector
from agenteval_collector.cli.demo import demo
from agenteval_collector.cli.judge import judge
from agenteval_collector.cli.label import label
from agenteval_collector.cli.read import register
from agenteval_collector.cli.reliability import reliability
from agenteval_collector.cli.replay import replay
from agenteval_collector.cli.settings import config

app = typer.Typer(
    name="agenteval",
    help="Live evaluation of LLM agents on OpenTelemetry.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
)
app.command()(collector)
app.command()(demo)
app.command()(replay)
register(app)
app.command()(label)
app.command()(judge)
app.command()(reliability)
app.command()(config)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run(_context: typer.Context) -> None:
    """Run a command with the processor attached to it: agenteval run -- python app.py

    Carried out by the client, before this application is loaded; it stands here for the help.
    """


def main() -> None:
    """The console script's entry point."""
    app()
