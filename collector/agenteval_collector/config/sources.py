"""Read the settings from their sources, and name every one that is wrong."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from agenteval_collector.config.settings import Settings
from agenteval_collector.config.values import merge
from otel_agenteval.loops.settings import AGENTEVAL_LOOPS, ONE_BY_ONE

PREFIX = "AGENTEVAL_"

# Read by the client in the agent's process; not the collector's, but often in the same environment.
CLIENT_VARIABLES = frozenset({"ENDPOINT", "HEADERS", "API_KEY", "URL", "SHARED"})

_AGENTS = (("loops", "agents"), ("findings", "agents"))


class ConfigError(ValueError):
    """The settings do not hold; the message names every key that is wrong and where it came from."""


def load(
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """The effective settings. Raises ConfigError naming each wrong key, its source and what is wrong with it."""
    sources: list[tuple[str, dict[str, Any]]] = []
    if file is not None:
        sources.append((str(file), _read_yaml(file)))
    sources.append(("environment", merge(_openai_environment(environ), _from_environment(environ))))
    sources.append(("flags", dict(flags or {})))
    merged: dict[str, Any] = {}
    for _, values in sources:
        merged = merge(merged, values)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(problem, sources) for problem in error.errors())) from error


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: is not YAML: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: must be a mapping of settings, not {type(values).__name__}")
    return values


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    if AGENTEVAL_LOOPS in environ:
        raise ConfigError(f"{AGENTEVAL_LOOPS} is set: {ONE_BY_ONE}")
    values: dict[str, Any] = {}
    for variable, text in sorted(environ.items()):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in CLIENT_VARIABLES:
            continue
        *levels, last = _levels(name)
        place = values
        for level in levels:
            place = place.setdefault(level, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{variable}: {PREFIX}{level.upper()} is set as a value of its own as well")
        place[last] = _parse(text)
    return values


def _levels(name: str) -> list[str]:
    """The levels that a variable's name writes; an agent's name is a key, and means what it says."""
    levels = name.split("__")
    keep = 2 if tuple(level.lower() for level in levels[:2]) in _AGENTS else None
    return [level if index == keep else level.lower() for index, level in enumerate(levels)]


def _openai_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The judge's settings from the variables that every OpenAI client reads."""
    variables = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
    judge = {key: environ[variable] for key, variable in variables.items() if environ.get(variable)}
    return {"judge": judge} if judge else {}


def _parse(text: str) -> Any:
    """A variable's text as YAML, so that lists and numbers can be given; what is no YAML is itself."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _explain(problem: Any, sources: list[tuple[str, dict[str, Any]]]) -> str:
    path = [str(part) for part in problem["loc"]]
    key = ".".join(path)
    origin = next((name for name, values in reversed(sources) if _has(values, path)), "settings")
    if problem["type"] == "extra_forbidden":
        return f"{origin}: unknown key {key!r}"
    return f"{origin}: {key}: {problem['msg']}"


def _has(values: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True
