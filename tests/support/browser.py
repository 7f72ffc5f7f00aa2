"""A headless Chromium, spoken to in the DevTools protocol over a pair of pipes."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """Where the browser is, None where there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


class Tab:
    """One tab. Every event that the browser sent is kept in `events`."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self.events: list[dict[str, Any]] = []
        self._commands = commands
        self._answers = answers
        self._id = 0
        self._session: dict[str, str] = {}
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Log", "Network", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": parameters, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (answer := self._read()).get("id") != self._id:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        """Go to `url` and wait until everything on it is loaded."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def press(self, key: str) -> None:
        """Press a key, as a person would."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def wait_for(self, method: str) -> None:
        """Wait until an event of that name was sent."""
        while not self.seen(method):
            self.events.append(self._read())

    def resize(self, width: int, height: int = 900) -> None:
        """Be a window of that size."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)

    def prefer(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        return self.send("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def seen(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the events of that name since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def _read(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser went away"
            data += byte
        message: dict[str, Any] = json.loads(data)
        return message


@contextmanager
def open_tab(binary: str, profile: Path) -> Iterator[Tab]:
    """A tab of a browser of its own, with a new profile; the test's own timeout bounds every wait."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    # The browser wants its commands on descriptor 3 and answers on 4.
    wire = f'exec "$@" 3<&{command_read} 4>&{answer_write}'
    process = subprocess.Popen(
        ["bash", "-c", wire, "bash", binary, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(command_read, answer_write),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    os.close(command_read)
    os.close(answer_write)
    try:
        with os.fdopen(command_write, "wb") as commands, os.fdopen(answer_read, "rb") as answers:
            yield Tab(commands, answers)
    finally:
        process.kill()
        process.wait(timeout=20)
