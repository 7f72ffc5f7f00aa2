"""The mutants that are written down: each can still be put in, and the test that must fail for it is still there."""

from functools import cache
from pathlib import Path

import pytest

from tests.support.equality.documents import ROOT
from tests.support.mutants.__main__ import PACKAGES
from tests.support.mutants.written import MUTANTS, Mutant


@cache
def texts() -> dict[Path, str]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path: path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_put_in_and_its_test_is_there(mutant: Mutant) -> None:
    assert [text.count(mutant.original) for text in texts().values() if mutant.original in text] == [1]
    path, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")
