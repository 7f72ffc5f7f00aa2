"""The description of the HTTP API as OpenAPI 3.1, made from its endpoints and the types of their documents."""

import re
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from pydantic import TypeAdapter

from agenteval_collector.api.documents import ErrorDocument
from agenteval_collector.api.endpoints import ENDPOINTS, WRITE_ENDPOINTS, Endpoint, WriteEndpoint
from agenteval_collector.api.writing import TOKEN_HEADER

DESCRIPTION_PATH: Final = "/api/v1/openapi.json"


@cache
def description() -> dict[str, Any]:
    """Return the whole description."""
    answers = [*(endpoint.answer for endpoint in ENDPOINTS), ErrorDocument]
    bodies = [endpoint.body for endpoint in WRITE_ENDPOINTS]
    found, shared = TypeAdapter.json_schemas(
        [
            *((kind.__name__, "serialization", TypeAdapter(kind)) for kind in answers),
            *((kind.__name__, "validation", TypeAdapter(kind)) for kind in bodies),
        ],
        ref_template="#/components/schemas/{model}",
    )
    schemas = {name: schema for (name, _), schema in found.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "otel-agenteval", "version": version("otel-agenteval")},
        "paths": {
            **{endpoint.path: {"get": _operation(endpoint, schemas)} for endpoint in ENDPOINTS},
            **{endpoint.path: {"post": _write_operation(endpoint, schemas)} for endpoint in WRITE_ENDPOINTS},
        },
        "components": {"schemas": shared.get("$defs", {})},
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    in_path = re.findall(r"{(\w+)}", endpoint.path)
    return {
        "summary": endpoint.summary,
        "parameters": [
            *(_parameter(name, "path", True) for name in in_path),
            *(_parameter(name, "query", name in endpoint.required) for name in endpoint.parameters),
        ],
        "responses": _responses(endpoint, schemas),
    }


def _write_operation(endpoint: WriteEndpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": endpoint.summary,
        "parameters": [_parameter(TOKEN_HEADER, "header", False)],
        "requestBody": {"required": True, **_content(schemas[endpoint.body.__name__])},
        "responses": _responses(endpoint, schemas),
    }


def _responses(endpoint: Endpoint | WriteEndpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    return {
        "200": {"description": "The document", **_content(schemas[endpoint.answer.__name__])},
        "default": {"description": "Why there is none", **_content(schemas[ErrorDocument.__name__])},
    }


def _parameter(name: str, place: str, is_required: bool) -> dict[str, Any]:
    kind = "integer" if name == "limit" else "string"
    return {"name": name, "in": place, "required": is_required, "schema": {"type": kind}}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}
