"""The OpenAPI 3.1 description of the HTTP API, made from its endpoints and the types of their documents."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from agenteval_collector.serve.api.answers import ErrorDocument
from agenteval_collector.serve.api.endpoints import ENDPOINTS, WRITE_ENDPOINTS, Endpoint, ReadEndpoint, WriteEndpoint
from agenteval_collector.serve.api.wire import TOKEN_HEADER, TOKEN_PATH
from agenteval_collector.serve.api.write_guard import TokenDocument

DESCRIPTION_PATH: Final = "/api/v1/openapi.json"

Schemas: TypeAlias = Mapping[Any, dict[str, Any]]
"""The schema of each type of document."""
ParameterList: TypeAlias = list[dict[str, Any]]


@cache
def description() -> dict[str, Any]:
    """Return the whole description. It is made once: it takes pydantic a while."""
    endpoints: list[Endpoint] = [*ENDPOINTS, *WRITE_ENDPOINTS]
    answers = [*(endpoint.answer for endpoint in endpoints), TokenDocument, ErrorDocument]
    bodies = [endpoint.body for endpoint in WRITE_ENDPOINTS]
    found, shared = TypeAdapter.json_schemas(
        [
            *((kind, "serialization", TypeAdapter(kind)) for kind in answers),
            *((kind, "validation", TypeAdapter(kind)) for kind in bodies),
        ],
        ref_template="#/components/schemas/{model}",
    )
    schemas = {kind: schema for (kind, _), schema in found.items()}
    operations = [
        *(
            (endpoint.path, "get", _operation(endpoint.summary, _asked(endpoint), endpoint.answer, schemas))
            for endpoint in ENDPOINTS
        ),
        *((endpoint.path, "post", _write_operation(endpoint, schemas)) for endpoint in WRITE_ENDPOINTS),
        (TOKEN_PATH, "get", _operation("The token that requests to write carry", [], TokenDocument, schemas)),
    ]
    paths: dict[str, dict[str, Any]] = {}
    for path, method, operation in operations:
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "otel-agenteval", "version": version("otel-agenteval")},
        "paths": paths,
        "components": {"schemas": shared.get("$defs", {})},
    }


def _operation(summary: str, parameters: ParameterList, answer: Any, schemas: Schemas, **more: Any) -> dict[str, Any]:
    return {
        "summary": summary,
        "parameters": parameters,
        **more,
        "responses": {
            "200": {"description": "The document", **_content(schemas[answer])},
            "default": {"description": "Why there is none", **_content(schemas[ErrorDocument])},
        },
    }


def _write_operation(endpoint: WriteEndpoint, schemas: Schemas) -> dict[str, Any]:
    parameters = [*_in_path(endpoint), _parameter(TOKEN_HEADER, "header", False)]
    body = {"required": True, **_content(schemas[endpoint.body])}
    return _operation(endpoint.summary, parameters, endpoint.answer, schemas, requestBody=body)


def _asked(endpoint: ReadEndpoint) -> ParameterList:
    in_query = (_parameter(name, "query", name in endpoint.required) for name in endpoint.parameters)
    return [*_in_path(endpoint), *in_query]


def _in_path(endpoint: Endpoint) -> ParameterList:
    return [_parameter(name, "path", True) for name in re.findall(r"{(\w+)}", endpoint.path)]


def _parameter(name: str, location: str, is_required: bool) -> dict[str, Any]:
    kind = "integer" if name == "limit" else "string"
    return {"name": name, "in": location, "required": is_required, "schema": {"type": kind}}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}
