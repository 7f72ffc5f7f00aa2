"""The pages under docs/frameworks, read as what they are: commands to run, and an example."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "frameworks"
EXAMPLES = ROOT / "examples" / "frameworks"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class FrameworkPage:
    """One page: the packages that it has installed, the variables that it sets, the command and the code of its
    example."""

    name: str
    requirements: tuple[str, ...]
    variables: dict[str, str]
    command: tuple[str, ...]
    code: str


def framework_pages() -> list[FrameworkPage]:
    """Return all pages by name, without the index."""
    return [_read(path) for path in sorted(FOLDER.glob("*.md")) if path.stem != "index"]


def _read(path: Path) -> FrameworkPage:
    blocks = dict(_BLOCK.findall(path.read_text()))
    install, *exports, command = map(shlex.split, blocks["sh"].strip().splitlines())
    assert install[:2] == ["pip", "install"], path.name
    assert all(words[0] == "export" for words in exports), path.name
    variables = dict(words[1].split("=", 1) for words in exports)
    return FrameworkPage(path.stem, tuple(install[2:]), variables, tuple(command), blocks["python"])
