"""Resources of spans and log records, decoded."""

from functools import lru_cache

from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel_agenteval.conventions.spans import attributes
from otel_agenteval.model import Json


# A few services send everything: their resources are decoded once, not for every trace.
@lru_cache(maxsize=256)
def resource_of(raw: bytes) -> dict[str, Json]:
    """Return the attributes of a serialized Resource. They are shared and must not be changed."""
    return attributes(Resource.FromString(raw).attributes)
