"""The command line: arguments go in; tables, JSON and an exit code come out. The replay and the demo are here too."""

from agenteval_collector.cli.command_line import main

__all__ = ["main"]
