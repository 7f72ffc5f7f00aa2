"""The limits that CONTRIBUTING.md sets to functions, modules and decisions."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = [
    path
    for folder in ("otel_agenteval", "collector/agenteval_collector")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "v1" not in path.parts  # Stubs that protoc has written.
]


def test_no_function_is_longer_than_80_lines() -> None:
    longer = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 80
    }
    assert MODULES
    assert longer == set()


def test_no_module_is_longer_than_800_lines() -> None:
    assert {str(path.relative_to(ROOT)) for path in MODULES if len(path.read_text().splitlines()) > 800} == set()


def test_no_decision_is_longer_than_40_lines() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert decisions
    assert [each.name for each in decisions if len(each.read_text().splitlines()) > 40] == []


def test_each_class_has_a_name_of_its_own() -> None:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_"), []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
