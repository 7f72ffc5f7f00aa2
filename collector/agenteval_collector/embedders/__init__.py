"""Embedders: texts go in, vectors come out."""

from agenteval_collector.embedders.embedded import EmbeddedEmbedder
from agenteval_collector.embedders.ports import Embedder

__all__ = ["EmbeddedEmbedder", "Embedder"]
