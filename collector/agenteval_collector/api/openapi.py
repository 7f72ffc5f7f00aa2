"""The description of the HTTP API as OpenAPI 3.1, made from its endpoints and the types of their documents."""

import re
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from pydantic import TypeAdapter

from agenteval_collector.api.documents import ErrorDocument
from agenteval_collector.api.endpoints import ENDPOINTS, Endpoint

DESCRIPTION_PATH: Final = "/api/v1/openapi.json"


@cache
def description() -> dict[str, Any]:
    """Return the whole description."""
    types = [*(endpoint.answer for endpoint in ENDPOINTS), ErrorDocument]
    answers, shared = TypeAdapter.json_schemas(
        [(kind.__name__, "serialization", TypeAdapter(kind)) for kind in types],
        ref_template="#/components/schemas/{model}",
    )
    schemas = {name: schema for (name, _), schema in answers.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "otel-agenteval", "version": version("otel-agenteval")},
        "paths": {endpoint.path: {"get": _operation(endpoint, schemas)} for endpoint in ENDPOINTS},
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
        "responses": {
            "200": _answer("The document", schemas[endpoint.answer.__name__]),
            "default": _answer("Why there is none", schemas[ErrorDocument.__name__]),
        },
    }


def _parameter(name: str, place: str, is_required: bool) -> dict[str, Any]:
    kind = "integer" if name == "limit" else "string"
    return {"name": name, "in": place, "required": is_required, "schema": {"type": kind}}


def _answer(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": summary, "content": {"application/json": {"schema": schema}}}
