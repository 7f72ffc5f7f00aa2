"""Texts to vectors."""

from agenteval_collector.embedders.embedded import EmbeddedEmbedder
from agenteval_collector.embedders.port import Embedder

__all__ = ["EmbeddedEmbedder", "Embedder"]
