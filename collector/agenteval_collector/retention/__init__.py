"""Retention: deletions and ages go in. The data that they are about leaves every file."""

from agenteval_collector.retention.stage import RetentionStage

__all__ = ["RetentionStage"]
