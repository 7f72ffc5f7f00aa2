"""Checks the licences in a bill of materials: python -m tests.support.licences dist/otel-agenteval.cdx.json

A package may be used under any licence here that asks for no more than its notice, or that reaches its own files alone.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ALLOWED = re.compile(r"Apache|MIT\b|BSD|ISC|MPL|Mozilla|Python Software|PSF|Unlicense|CC0|Zlib", re.IGNORECASE)
NOT_ALLOWED = re.compile(r"\bA?GPL|Affero|Commercial|Proprietary", re.IGNORECASE)
STATED = {"protobuf": "BSD-3-Clause", "wordllama": "MIT"}
"""Read by hand: their metadata has it in words, which the bill of materials leaves out."""
VENDORED = Path("collector/agenteval_collector/serve/web/vendor")


def licence(component: dict[str, Any]) -> str:
    """Return all that a component says of its licence."""
    found = (each.get("expression") or each.get("license", {}) for each in component.get("licenses", ()))
    return "; ".join(each if isinstance(each, str) else each.get("id") or each.get("name", "") for each in found)


def problems(materials: dict[str, Any]) -> list[str]:
    """Name each component without a licence that is allowed."""
    found = {each["name"]: licence(each) or STATED.get(each["name"], "") for each in materials["components"]}
    refused = {name: text for name, text in found.items() if not ALLOWED.search(text) or NOT_ALLOWED.search(text)}
    return [f"{name}: its licence is {text[:80]!r}, which nobody has allowed" for name, text in refused.items()]


def unlicensed() -> list[str]:
    """Name each vendored file without its licence beside it."""
    files = [each for each in VENDORED.iterdir() if each.suffix != ".LICENSE"]
    return [f"{each} has no licence beside it" for each in files if not _licence_of(each).is_file()]


def _licence_of(file: Path) -> Path:
    return VENDORED / f"{file.name.partition('-')[0]}.LICENSE"


def main(file: Path) -> int:
    found = problems(json.loads(file.read_text())) + unlicensed()
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
