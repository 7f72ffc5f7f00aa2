"""What the documentation says of settings is what the settings are."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import agenteval_collector
from agenteval_collector.config.evaluators import EmbeddingConfig, EvaluatorConfig, EvaluatorsConfig
from agenteval_collector.config.findings import FindingConfig, FindingsConfig
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.values import Section
from agenteval_collector.model.score_kinds import JUDGED_KINDS, SCORE_KINDS
from agenteval_collector.serve.api.openapi import description

import otel_agenteval
from otel_agenteval.finding import FindingKind
from tests.support.api_examples import BLOCK, DOCUMENTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILT = {"dist/"}
"""Folders that a command makes."""
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]


def keys(section: type[Section], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, EvaluatorConfig | EmbeddingConfig):
            found |= keys(kind, f"{prefix}NAME.")
        elif isinstance(kind, type) and issubclass(kind, FindingsConfig):
            found |= keys(kind, f"{prefix}{name}.") | keys(FindingConfig, f"{prefix}{name}.KIND.")
        elif isinstance(kind, type) and issubclass(kind, Section):
            found |= keys(kind, f"{prefix}{name}.")
        elif isinstance(kind, type) and is_dataclass(kind):
            found |= nested(kind, f"{prefix}{name}.")
        else:
            found.add(prefix + name)
    return found


def nested(schema: type[Any], prefix: str) -> set[str]:
    found: set[str] = set()
    for field in fields(schema):
        if isinstance(field.type, type) and is_dataclass(field.type):
            found |= nested(field.type, f"{prefix}{field.name}.")
        else:
            found.add(prefix + field.name)
    return found


def test_every_setting_is_documented_and_nothing_else() -> None:
    table = (DOCS / "settings.md").read_text().partition("## Client")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    documented = {key for row in rows for key in re.findall(r"`([a-zA-Z_.]+)`", row.split("|")[1])}
    assert documented == keys(Settings)


def test_every_score_is_documented_as_its_row_has_it() -> None:
    page = (DOCS / "scores.md").read_text()
    for kind in SCORE_KINDS:
        assert f"| `{kind.name}` | {kind.subject} | {kind.method} | {kind.meaning} |\n" in page
    settings = re.findall(r"`evaluators\.NAME\.enabled` \|.*", (DOCS / "settings.md").read_text())[0]
    assert set(re.findall(r"`([a-z_]+)`", settings)) - {"true"} == set(EvaluatorsConfig.model_fields)
    assert {kind.name for kind in SCORE_KINDS} == set(EvaluatorsConfig.model_fields)


def test_every_judged_score_stands_with_its_question() -> None:
    page = (DOCS / "judge.md").read_text()
    for kind in JUDGED_KINDS.values():
        assert re.search(rf"^\| `{kind.question}` \| .*`{kind.name}`", page, re.MULTILINE)


def test_every_kind_of_finding_is_documented_with_its_severity() -> None:
    page = (DOCS / "findings.md").read_text()
    for kind in set(FindingKind) - {FindingKind.REPEATED_ANSWER}:
        assert f"| `{kind}` | {kind.severity}" in page


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
            if target.startswith("http"):
                continue
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(linked.read_text()), f"{page.name} links to {target}#{anchor}"


def fields_of(schema: dict[str, Any]) -> set[str]:
    """The fields of a document of the API, and of the documents in it."""
    schemas = description()["components"]["schemas"]
    inner = (schemas[name] for name in re.findall(r"schemas/(\w+)", json.dumps(schema)))
    return {*schema.get("properties", ()), *(name for each in inner for name in fields_of(each))}


def keys_of(example: Any) -> Iterator[str]:
    if isinstance(example, dict):
        for key, value in example.items():
            yield key
            if key not in {"arguments", "metadata", "signals", "versions", "other"}:
                yield from keys_of(value)
    elif isinstance(example, list):
        for entry in example:
            yield from keys_of(entry)


def test_the_examples_of_the_api_have_the_fields_that_the_description_has() -> None:
    """`make docs` writes the examples anew."""
    shown = {name: json.loads(block) for _, name, block, _ in BLOCK.findall((DOCS / "api.md").read_text())}
    assert set(shown) == set(DOCUMENTS)
    for name, example in shown.items():
        schema = description()["components"]["schemas"][DOCUMENTS[name]]
        assert set(example) == set(schema["properties"])
        assert set(keys_of(example)) <= fields_of(schema)


def test_the_index_leads_to_every_page() -> None:
    listed = set(re.findall(r"\]\(([^)#]+)\)", (DOCS / "index.md").read_text()))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages <= listed


def test_the_index_has_each_decision_by_its_title() -> None:
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", (DOCS / "index.md").read_text(), re.MULTILINE)
    titles = {str(page.relative_to(DOCS)): page.read_text().partition("\n")[0] for page in DOCS.glob("decisions/*.md")}
    assert {page: f"# {number}. {title}" for number, title, page in rows} == titles


def test_the_architecture_names_every_package() -> None:
    named = set(re.findall(r"^\| `([a-z_]+)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE))
    for package in (Path(otel_agenteval.__file__).parent, Path(agenteval_collector.__file__).parent):
        folders = {each.parent.name for each in package.glob("*/__init__.py")} - {"proto"}
        assert folders <= named


def test_every_test_that_the_page_on_security_names_exists() -> None:
    files = {file.name: file.read_text() for file in (ROOT / "tests").rglob("test_*.py")}
    everything = "\n".join(files.values())
    names = re.findall(r"`([^`]*test_[^`]*)`", (DOCS / "security.md").read_text())
    assert names
    for named in names:
        file, _, test = named.rpartition("/")[2].partition("::")
        if not file.endswith(".py"):
            file, test = "", file.partition("::")[0]
        assert not file or file in files, named
        assert not test or f"def {test}(" in (files[file] if file else everything), named


def test_every_path_of_our_code_that_a_page_names_exists() -> None:
    """A path may begin in the repository or in a package, with or without the package's own name."""
    packages = [Path(otel_agenteval.__file__).parent, Path(agenteval_collector.__file__).parent]
    pages = (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))
    path_of_code = re.compile(r"`([\w.…/-]+/(?:\w+\.py)?)`")
    names = [(page.name, named) for page in pages for named in path_of_code.findall(page.read_text())]
    assert names
    for page, named in names:
        path = named.replace("collector/…/", "")
        is_ours = "NAME" not in path and path not in BUILT
        assert not is_ours or any((folder / path).exists() for folder in (ROOT, *packages)), f"{page}: {named}"
