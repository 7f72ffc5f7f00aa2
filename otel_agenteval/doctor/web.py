"""Requests to a collector's web port, with advice if the address is wrong."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import BaseHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

TIMEOUT: Final = 10.0
MAX_BODY_BYTES: Final = 256 * 1024 * 1024
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_WEB_PORT: Final = "give the collector's web port (4319), not its gRPC port"
_TRUST: Final = "name the file of its authority in SSL_CERT_FILE, or to the doctor as --certificate FILE"


class NoWebAnswer(Exception):
    """Raised if there is no usable answer. It says what was found, and `advice` says what to do."""

    def __init__(self, fact: str, advice: str) -> None:
        super().__init__(fact)
        self.advice = advice


class _RedirectsRefused(HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Web:
    """The web port of a collector. `certificate` is a PEM file with the root certificates to trust.

    A `url` without a scheme is taken for HTTP.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    certificate: str | None = None

    def __post_init__(self) -> None:
        if "://" not in self.url:
            object.__setattr__(self, "url", f"http://{self.url}")

    def post(self, path: str, document: object) -> tuple[int, Any]:
        """Post a JSON document to `path`. Return and raise as `get` does.

        Without a key, the collector wants its token. A page of another site in a browser cannot get this token.
        """
        headers = {"Content-Type": "application/json"}
        if not self.key:
            _, answer = self.get("/api/v1/token")
            headers["X-Agenteval-Token"] = str(answer.get("token", "")) if isinstance(answer, dict) else ""
        return self._ask(path, json.dumps(document).encode(), headers)

    def get(self, path: str) -> tuple[int, Any]:
        """Return the status and the JSON document at `path`, None if the body is not JSON. Raises NoWebAnswer."""
        return self._ask(path, None, {})

    def _ask(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, Any]:
        try:
            address = urlsplit(self.url)
            if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
                raise ValueError(self.url)
            handlers: list[BaseHandler] = [_RedirectsRefused()]
            if address.hostname in _LOOPBACK:
                handlers.append(ProxyHandler({}))
            if address.scheme == "https":  # Reading all authorities takes longer than a request.
                handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=self.certificate)))
            request = Request(self.url.rstrip("/") + path, body, {**self._headers(), **headers})
        except ValueError as problem:
            raise NoWebAnswer(f"--url is {self.url!r}, no address", "give one as http://127.0.0.1:4319") from problem
        except OSError as problem:
            raise NoWebAnswer(f"{self.certificate} cannot be read: {problem}", "correct --certificate") from problem
        try:
            with build_opener(*handlers).open(request, timeout=TIMEOUT) as response:
                return _read(response)
        # urllib raises every other status than 2xx, but it is an answer with a body.
        except HTTPError as answer:
            with answer:
                return _read(answer)
        except (OSError, HTTPException) as problem:
            raise self._no_answer(problem) from problem

    def _headers(self) -> dict[str, str]:
        if not self.key:
            return {}
        if not (self.key.isascii() and self.key.isprintable()):
            raise NoWebAnswer("the key holds characters that no HTTP header can carry", "correct AGENTEVAL_API_KEY")
        return {"Authorization": f"Bearer {self.key}"}

    def _no_answer(self, problem: Exception) -> NoWebAnswer:
        reason = problem.reason if isinstance(problem, URLError) else problem
        if isinstance(reason, ssl.SSLCertVerificationError):
            return NoWebAnswer(f"{self.url}: its certificate is not trusted", _TRUST)
        if isinstance(reason, ssl.SSLError):
            return NoWebAnswer(f"{self.url} has no TLS", "use http:// instead of https://")
        if isinstance(reason, ConnectionRefusedError):
            return NoWebAnswer(
                f"nothing listens on {self.url}", "start `agenteval collector`, or give its web port as --url"
            )
        if isinstance(reason, ConnectionResetError):
            return NoWebAnswer(f"{self.url} closes the connection", "if it has TLS, use https:// instead of http://")
        if isinstance(reason, HTTPException):
            return NoWebAnswer(f"{self.url} does not speak HTTP", _WEB_PORT)
        return NoWebAnswer(f"{self.url}: {reason}", "check the address, or give the collector's web port as --url")


def _read(response: HTTPResponse | HTTPError) -> tuple[int, Any]:
    body = response.read(MAX_BODY_BYTES)
    try:
        return response.status or 0, json.loads(body)
    except (ValueError, RecursionError):
        return response.status or 0, None
