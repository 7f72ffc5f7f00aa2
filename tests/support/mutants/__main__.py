"""Put one mutant after the other into a copy of the tree, and run the test that must fail for it.

    python -m tests.support.mutants [WORD ...]

With words, only mutants whose names have one of them. Exits with 1 if a mutant lives, or cannot be put in.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.support.equality.documents import ROOT, environment_of
from tests.support.mutants.written import MUTANTS, Mutant

WORKERS: Final = 2
WITHIN: Final = 180.0
"""Seconds that a test may take. A mutant that never ends is killed, too."""
PACKAGES: Final = ("collector/agenteval_collector", "otel_agenteval")
_FAILED: Final = 1
"""Exit code of pytest if tests failed; others mean that it could not run them."""


def main() -> None:
    """Run as a script."""
    mutants = [each for each in MUTANTS if not sys.argv[1:] or any(word in each.name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory(prefix="agenteval-mutants-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            trees.put(_copied(Path(folder) / str(number)))
        tree = trees.get()
        done = _tested(tree, list(dict.fromkeys(each.test for each in mutants)))
        if done.returncode:
            sys.exit(f"tests fail without a mutant:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        trees.put(tree)

        def fate(mutant: Mutant) -> str:
            tree = trees.get()
            try:
                return _fate(mutant, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(WORKERS) as pool:
            alive = 0
            for mutant, found in zip(mutants, pool.map(fate, mutants), strict=True):
                print(f"{found:<10}{mutant.name}", flush=True)
                alive += found != "killed"
    print(f"{len(mutants) - alive} of {len(mutants)} mutants are killed")
    sys.exit(bool(alive))


def _copied(folder: Path) -> Path:
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, check=True, stdout=subprocess.PIPE, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _fate(mutant: Mutant, tree: Path) -> str:
    """Return `killed`, `alive`, or why it could not be tried."""
    paths = [path for package in PACKAGES for path in (tree / package).rglob("*.py")]
    found = [path for path in paths if mutant.original in path.read_text(encoding="utf-8")]
    if len(found) != 1 or found[0].read_text(encoding="utf-8").count(mutant.original) != 1:
        return f"in {len(found)} files"
    [path] = found
    text = path.read_text(encoding="utf-8")
    try:
        _write(path, text.replace(mutant.original, mutant.replacement))
        code = _tested(tree, [mutant.test]).returncode
    except subprocess.TimeoutExpired:
        return "killed"
    finally:
        _write(path, text)
    return {0: "alive", _FAILED: "killed"}.get(code, f"pytest {code}")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Two writes within a second look alike to Python, which would take the compiled form of the first.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _tested(tree: Path, tests: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # With CI set, property tests draw the same inputs each time.
    environment = {**environment_of(tree), "CI": "1", "PATH": os.environ["PATH"]}
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=WITHIN, check=False
    )


if __name__ == "__main__":
    main()
