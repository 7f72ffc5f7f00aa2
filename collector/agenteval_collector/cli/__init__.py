"""The command line."""

from agenteval_collector.cli.app import main

__all__ = ["main"]
