"""Compare what users see of this tree with another revision, or with documents that were written before.

    python -m tests.support.equality against REVISION
    python -m tests.support.equality write FOLDER [--tree TREE]
    python -m tests.support.equality compare BEFORE AFTER

`--instructions` also counts the instructions per span, which takes valgrind and some minutes more.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.equality.comparing import differences, lines
from tests.support.equality.documents import ROOT, write


def main() -> None:
    """Run as a script; exits with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="more recordings, if it exists")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the documents of a tree")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--tree", type=Path, default=ROOT)
    comparing = commands.add_parser("compare", help="compare two folders of documents")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    against = commands.add_parser("against", help="compare this tree with a revision of it")
    against.add_argument("revision")
    for command in (writing, against):
        command.add_argument("--instructions", action="store_true", help="count instructions too; needs valgrind")
    given = parser.parse_args()
    if given.command == "write":
        write(given.tree, given.folder, given.shared, instructions=given.instructions)
        return
    with tempfile.TemporaryDirectory(prefix="agenteval-equality-") as name:
        folder = Path(name)
        before, after = folder / "before", folder / "after"
        if given.command == "compare":
            before, after = given.before, given.after
        else:
            with _work_tree(given.revision, folder / "tree") as tree:
                write(tree, before, given.shared, instructions=given.instructions)
            write(ROOT, after, given.shared, instructions=given.instructions)
        found = differences(before, after)
    print(*lines(found), sep="\n")
    sys.exit(bool(found))


@contextmanager
def _work_tree(revision: str, folder: Path) -> Iterator[Path]:
    """Check a revision out beside this tree, for as long as it is needed."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        subprocess.run([*git, "prune"], check=True)


if __name__ == "__main__":
    main()
