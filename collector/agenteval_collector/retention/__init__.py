"""The end of data: deletions and ages go in, and nothing of what they are about is left in any file."""

from agenteval_collector.retention.stage import RetentionStage

__all__ = ["RetentionStage"]
