"""The command line: arguments go in; tables, JSON and an exit code come out."""

from agenteval_collector.cli.command_line import main

__all__ = ["main"]
