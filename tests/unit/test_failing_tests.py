"""A test that fails is reported, and the tests behind it run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

FAILING = """
class Broken:
    def __init__(self) -> None:
        self.me = self  # Found by the garbage collector alone.

    def __del__(self) -> None:
        (1 / 0) + (2 * 3)


def test_that_fails() -> None:
    Broken()
    assert [] == [1]


def test_behind_it() -> None:
    pass
"""


def test_garbage_that_fails_to_go_away_does_not_end_pytest(tmp_path: Path) -> None:
    # So long a module that garbage is collected while it is parsed.
    rest = "".join(f"\n\ndef unused_{number}(a: int) -> int:\n    return a * {number} + a\n" for number in range(600))
    (tmp_path / "test_failing.py").write_text(FAILING + rest)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-W", "error"]
    command += ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}", str(tmp_path / "test_failing.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert "INTERNALERROR" not in done.stdout, done.stdout
    assert "assert [] == [1]" in done.stdout, done.stdout
    assert "1 failed, 1 passed" in done.stdout, done.stdout
