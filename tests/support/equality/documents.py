"""The documents of a tree: made by its own command, of input that this tree makes."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.workload import taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests
from tests.support.equality.comparing import COUNTED, save, settled
from tests.support.equality.live import live_documents

ROOT: Final = Path(__file__).parents[3]
FOLDERS: Final = ("recorded", "corpus", "conversations")
"""Folders of `tests/data` with recordings."""
SHARED_FOLDERS: Final = ("corpus", "corpus3")
STARTED_AT: Final = 1_700_000_000_000_000_000
"""Nanoseconds since the Unix epoch at which made conversations start."""
GENERATED: Final = 40
_REPLAY: Final = Path(__file__).with_name("replaying.py")


def write(tree: Path, folder: Path, shared: Path, *, instructions: bool = False) -> None:
    """Write the documents of `tree` into `folder`. Recordings in `shared` are read too, if it exists."""
    environment = environment_of(tree)
    since = time.time()
    with tempfile.TemporaryDirectory(prefix="agenteval-equality-") as name:
        made = Path(name)
        replays = [*_of_recordings(shared), *_of_conversations(shared, made)]
        for document, path in _replayed(replays, environment, made):
            save(folder / "replay" / document, settled(json.loads(path.read_text(encoding="utf-8")), since))
        print(f"{len(replays)} replays in {time.time() - since:.0f} s", file=sys.stderr)
    for document, content in live_documents(environment).items():
        save(folder / document, settled(content, since))
    if instructions:
        save(folder / COUNTED, _instructions(tree, environment))
    print(f"{tree}: {time.time() - since:.0f} s", file=sys.stderr)


def environment_of(tree: Path) -> dict[str, str]:
    """Return an environment in which Python finds the packages of `tree` first, and nothing else sets them."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AGENTEVAL_", "OPENAI_", "OTEL_", "PYTHON"))
    }
    paths = os.pathsep.join(str(path.resolve()) for path in (tree, tree / "collector"))
    # With a fixed seed the order of sets is the same each time.
    return {**inherited, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}


def _of_recordings(shared: Path) -> Iterator[list[str]]:
    """Yield a document's name and the arguments of its replay, for each recording; the same bytes once."""
    folders = [*(ROOT / "tests" / "data" / name for name in FOLDERS), *(shared / name for name in SHARED_FOLDERS)]
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob("*.otlp.pb")):
            if ".logs." in path.name:
                continue
            logs = path.with_name(f"{path.name.removesuffix('.otlp.pb')}.logs.otlp.pb")
            digest = sha256(path.read_bytes() + (logs.read_bytes() if logs.exists() else b"")).digest()
            if digest not in seen:
                seen.add(digest)
                source = f"shared-{folder.name}" if folder.parent == shared else folder.name
                yield [f"{source}--{path.name.removesuffix('.otlp.pb')}.json", str(path.resolve())]


def _of_conversations(shared: Path, folder: Path) -> Iterator[list[str]]:
    """Yield the same for conversations, once they are written into `folder` as recordings with their results."""
    conversations = {"generated": list(generate(GENERATED, seed=7))}
    for path in sorted((shared / "taubench").glob("*.json")):
        conversations[f"taubench-{path.stem}"] = taubench.read(path)
    for name, played in conversations.items():
        for marker in (True, False):
            recording = folder / f"{name}{'' if marker else '-plain'}.otlp.pb"
            write_recording(recording, requests(played, started_at=STARTED_AT, marker=marker))
            dataset = folder / f"{name}.jsonl"
            dataset.write_text("".join(f"{json.dumps(result)}\n" for result in _results(played)), encoding="utf-8")
            yield [f"{recording.name.removesuffix('.otlp.pb')}.json", str(recording), f"--dataset={dataset}"]


def _results(conversations: Iterable[Conversation]) -> Iterator[dict[str, Any]]:
    for conversation in conversations:
        yield {"task_id": conversation.task_id, "run_id": conversation.run_id, "success": conversation.success}


def write_recording(path: Path, bodies: Iterable[bytes]) -> None:
    """Write requests as a recording: each behind its length as a varint."""
    with path.open("wb") as out:
        for body in bodies:
            size = len(body)
            while size >= 0x80:
                out.write(bytes([size & 0x7F | 0x80]))
                size >>= 7
            out.write(bytes([size]) + body)


def _replayed(replays: list[list[str]], environment: dict[str, str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each document with the file that the tree's command has printed it to; two processes share the work."""
    halves = [list(islice(replays, start, None, 2)) for start in (0, 1)]
    running = []
    for half in halves:
        command = [sys.executable, "-P", str(_REPLAY), str(folder)]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, text=True, cwd=folder)
        running.append((process, "".join(f"{json.dumps(line)}\n" for line in half)))
    assert all(process.stdin is not None for process, _ in running)
    for process, lines in running:
        process.stdin.write(lines)
        process.stdin.close()
    for process, _ in running:
        if process.wait():
            raise RuntimeError(f"replaying ended with {process.returncode}")
    yield from ((name, folder / name) for name, *_ in replays)


def _instructions(tree: Path, environment: dict[str, str]) -> dict[str, float]:
    """Return thousands of instructions per span, counted by the tree's own benchmark."""
    command = [sys.executable, "-m", "benchmarks.instructions", "--json"]
    done = subprocess.run(command, env=environment, cwd=tree, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
