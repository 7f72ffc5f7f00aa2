"""The jars of Kafka's server: Maven fetches them once, as it is set up to, and they stay in the user's cache."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_DIGESTS = _HERE / "jars.sha256"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_OLDEST_JAVA = 17


class Missing(Exception):
    """This machine lacks what a broker takes; the message says what."""


def java() -> str:
    """The path of a Java that runs the broker. Raises Missing."""
    found = shutil.which("java")
    if found is None:
        raise Missing(f"needs Java {_OLDEST_JAVA} or newer: there is no `java` on the path")
    told = subprocess.run([found, "-version"], capture_output=True, text=True, check=True, timeout=30).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        raise Missing(f"needs Java {_OLDEST_JAVA} or newer, and this is {told.splitlines()[0]}")
    return found


def jars() -> list[Path]:
    """The server's jars, each as it was when its digest was written down. Raises Missing."""
    digests = {name: digest for digest, name in (line.split() for line in _DIGESTS.read_text().splitlines())}
    folder = _cache() / f"kafka-{hashlib.sha256(_DIGESTS.read_bytes()).hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        # Others of the suite wait here, and find what the first has fetched.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as fetched:
                _fetch(Path(fetched))
                (Path(fetched) / "jars").rename(folder)
    wrong = [name for name, digest in digests.items() if _digest(folder / name) != digest]
    if wrong:
        raise ValueError(f"not what {_DIGESTS.name} says: {', '.join(wrong)} in {folder}; remove that folder")
    return [folder / name for name in digests]


def _fetch(folder: Path) -> None:
    """Fill `folder`/jars."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("needs Maven (`mvn`) to fetch Kafka's jars")
    command = [maven, "--quiet", "--batch-mode", "--file", str(_HERE / "pom.xml"), _COPY]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise Missing(f"Maven could not fetch Kafka's jars: {done.stdout[-2000:]}")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otel-agenteval"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _write_digests() -> None:
    """Write down the digests of what pom.xml asks for now."""
    with tempfile.TemporaryDirectory() as fetched:
        _fetch(Path(fetched))
        paths = sorted(Path(fetched, "jars").iterdir())
        _DIGESTS.write_text("".join(f"{_digest(path)}  {path.name}\n" for path in paths))


if __name__ == "__main__":
    _write_digests()
