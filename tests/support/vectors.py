"""Inputs with the values that the authors' own code gave for them, see tests/data/vectors."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def vectors(name: str) -> Any:
    """A file of tests/data/vectors."""
    return json.loads((ROOT / "tests" / "data" / "vectors" / name).read_text("utf-8"))


def published(path: str) -> Any:
    """A file of published data that is no part of the repository.

    Skips the test where it is in no folder `shared` beside the repository, nor in the one that AGENTEVAL_SHARED names.
    """
    file = Path(os.environ.get("AGENTEVAL_SHARED", ROOT.parent / "shared"), path)
    if not file.exists():
        pytest.skip(f"the published data is not here: {file}")
    return json.loads(file.read_text("utf-8"))
