"""Embedders: texts go in, vectors come out."""

from agenteval_collector.embedders.embedded import EmbeddedEmbedder

__all__ = ["EmbeddedEmbedder"]
