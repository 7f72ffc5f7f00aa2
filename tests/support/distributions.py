"""Checks of the built distributions: python -m tests.support.distributions dist"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGES = {"otel_agenteval", "agenteval_collector"}


def wheel_problems(wheel: Path) -> list[str]:
    """Say what is missing in the wheel, and what does not belong there."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    problems = [f"{wheel.name} has {top}" for top in sorted(tops - PACKAGES)]
    needed = [f"{package}/py.typed" for package in sorted(PACKAGES)]
    needed += ["agenteval_collector/serve/web/templates/base.html", "agenteval_collector/serve/web/style.css"]
    return problems + [f"{wheel.name} lacks {name}" for name in needed if name not in names]


def source_problems(archive: Path) -> list[str]:
    """Say what the source distribution lacks to be built and tested from."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    needed = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/unit/test_docs.py", "docs/index.md"]
    return [f"{archive.name} lacks {name}" for name in needed if name not in names]


def rebuild_problems(archive: Path) -> list[str]:
    """Build both again from the source distribution, elsewhere, in another time zone: each must have the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        [source] = Path(folder).iterdir()
        again = Path(folder, "again")
        command = [sys.executable, "-m", "build", "--outdir", str(again), str(source)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "TZ": "Asia/Tokyo"})
        return [
            f"{built.name} differs from the one that is built from the source distribution"
            for built in sorted(archive.parent.iterdir())
            if built.suffix in (".whl", ".gz") and _digest(built) != _digest(again / built.name)
        ]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(folder: Path) -> int:
    wheels, archives = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    problems = [] if wheels and archives else [f"{folder} has no wheel, or no source distribution"]
    problems += [problem for wheel in wheels for problem in wheel_problems(wheel)]
    problems += [problem for archive in archives for problem in source_problems(archive) + rebuild_problems(archive)]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
