"""The command line: arguments go in; tables, JSON and an exit code come out."""

from agenteval_collector.cli.app import main

__all__ = ["main"]
