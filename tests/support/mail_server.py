"""An SMTP server that takes every mail and keeps it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any


@contextmanager
def taking_mail() -> Iterator[tuple[int, list[EmailMessage]]]:
    """The server's port, and the mails that came."""
    came: list[EmailMessage] = []

    class Session(StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            for line in self.rfile:
                command = line.decode().upper()
                if command.startswith("EHLO"):
                    self._say("250 here")
                elif command.startswith("DATA"):
                    self._say("354 go on")
                    came.append(self._mail())
                    self._say("250 taken")
                elif command.startswith("QUIT"):
                    self._say("221 bye")
                    return
                else:
                    self._say("250 well")

        def _mail(self) -> Any:
            lines = []
            for line in self.rfile:
                if line.rstrip() == b".":
                    break
                lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
            return message_from_bytes(b"".join(lines), policy=policy.default)

        def _say(self, answer: str) -> None:
            self.wfile.write(f"{answer}\r\n".encode())

    with ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], came
        finally:
            server.shutdown()
            thread.join(timeout=20)
