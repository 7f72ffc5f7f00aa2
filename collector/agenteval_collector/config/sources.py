"""Read the settings from their sources, and name every wrong setting in the error."""

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from agenteval_collector.config.keys import KeyConfig, KeyConfigs
from agenteval_collector.config.settings import Settings
from otel_agenteval.loops.setting_values import merge, nested
from otel_agenteval.loops.settings import AGENTEVAL_LOOPS, LoopSettingsError, loops_in

PREFIX = "AGENTEVAL_"
ENVIRONMENT = "environment"

# Variables of the client in the agent's process. They are no settings of the collector, but often in its environment.
CLIENT_VARIABLES = frozenset({"ENDPOINT", "HEADERS", "API_KEY", "URL", "SHARED"})


_KEYS: TypeAdapter[tuple[KeyConfig, ...]] = TypeAdapter(KeyConfigs)


class ConfigError(ValueError):
    """Raised for wrong settings. The message names every wrong key and the source that it came from."""


def load(
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the effective settings. Raises ConfigError, which names each wrong key, its source and the mistake."""
    # In this order, because each source wins over those before it.
    sources: list[tuple[str, dict[str, Any]]] = []
    if file is not None:
        sources.append((str(file), _read_yaml(file)))
    sources.append((ENVIRONMENT, merge(_openai_environment(environ), _from_environment(environ))))
    sources.append(("flags", dict(flags or {})))
    merged: dict[str, Any] = {}
    for _, values in sources:
        merged = merge(merged, values)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(
            "\n".join(line for problem in error.errors() for line in _explain(problem, sources, environ))
        ) from error


def load_keys(file: Path) -> tuple[KeyConfig, ...]:
    """Return the entries of a file of keys. Raises ConfigError, which names the file and the mistake."""
    values = _yaml(file)
    if not isinstance(values, list):
        raise ConfigError(f"{file}: must be a list of keys, as server.keys is")
    # Not `key-1` and so on: those are the names of plain keys in `server.keys`.
    named = [
        value if isinstance(value, dict) else {"name": f"file-{n}", "key": value} for n, value in enumerate(values, 1)
    ]
    try:
        return _KEYS.validate_python(named)
    except ValidationError as error:
        lines = (f"{file}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        raise ConfigError("\n".join(lines)) from error


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is there twice. Otherwise the second one would win, and settings of the first be lost."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        unique: list[Any] = []  # A key may be a list, of which there is no set.
        for key, _ in node.value:
            if key.value in unique:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is there twice", problem_mark=key.start_mark)
            unique.append(key.value)
        return node


def _yaml(file: Path) -> Any:
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _UniqueKeys)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{file}{line}: is not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: is not YAML: {error}") from error


def _read_yaml(file: Path) -> dict[str, Any]:
    values = _yaml(file)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: must be a mapping of settings, not {type(values).__name__}")
    return values


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    others = ((key, key.removeprefix(PREFIX), text) for key, text in environ.items() if key.startswith(PREFIX))
    try:
        values = nested(
            (variable, name, _parse(text))
            for variable, name, text in others
            if name not in CLIENT_VARIABLES and not variable.startswith(AGENTEVAL_LOOPS)
        )
        # The client's function reads the variables of loops, so that they mean the same here as in the agent's process.
        return merge(values, {"loops": loops_in(environ)})
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _openai_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the judge's settings from the variables that every OpenAI client reads."""
    variables = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}
    judge = {key: environ[variable] for key, variable in variables.items() if environ.get(variable)}
    return {"judge": judge} if judge else {}


def _parse(text: str) -> Any:
    """Parse a variable's text as YAML, so that it can hold lists and numbers. Return text that is no YAML as it is."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _explain(problem: Any, sources: list[tuple[str, dict[str, Any]]], environ: Mapping[str, str]) -> Iterator[str]:
    path = [str(part) for part in problem["loc"]]
    error = problem.get("ctx", {}).get("error")
    # The client's check of the loops' settings finds all their problems at once, and pydantic only sees one error.
    if isinstance(error, LoopSettingsError):
        for inside, message in error.problems:
            yield f"{_origin([*path, *inside], sources)}: {message}"
        return
    key = ".".join(path)
    message = str(error or problem["msg"])
    is_unknown = problem["type"] == "extra_forbidden"
    origin = _origin(path, sources) if path else "settings"
    unknown = _variable_set(path, environ) if origin == ENVIRONMENT else key
    sentence = (
        f"unknown key {unknown!r}{_meant(path, origin)}" if is_unknown else f"{key}: {message}" if key else message
    )
    yield f"{origin}: {sentence}"


def _variable(path: list[str]) -> str:
    return PREFIX + "__".join(path).upper()


def _variable_set(path: list[str], environ: Mapping[str, str]) -> str:
    """Return the variable, as it is written, that sets the key or one below it."""
    name = _variable(path)
    return next((variable for variable in environ if f"{variable.upper()}__".startswith(f"{name}__")), name)


def _meant(path: list[str], origin: str) -> str:
    """Return words that name the known key that is most like the last one of `path`. Return none if none is."""
    if "." in path[-1] and origin != ENVIRONMENT:
        return f": write {': with '.join(path[-1].split('.'))}: below it"
    defaults: Any = Settings().model_dump()
    for part in path[:-1]:
        defaults = defaults.get(part) if isinstance(defaults, Mapping) else None
    close = get_close_matches(path[-1], defaults or (), n=1)
    if origin != ENVIRONMENT:
        return f": did you mean {'.'.join(path[:-1] + close)!r}?" if close else ""
    # In the name of a variable, one underscore for two is the likely mistake.
    sections = defaults.items() if isinstance(defaults, Mapping) else ()
    keys = ([section, key] for section, below in sections if isinstance(below, Mapping) for key in below)
    meant = next((key for key in keys if "_".join(key) == path[-1]), close)
    return f": did you mean {_variable(path[:-1] + meant)}?" if meant else ""


def _origin(path: list[str], sources: list[tuple[str, dict[str, Any]]]) -> str:
    # The last source that has the key is the one whose value counts.
    return next((name for name, values in reversed(sources) if _has(values, path)), "settings")


def _has(values: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True
