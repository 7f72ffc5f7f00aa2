"""Read what a collector keeps: traces, sessions, labels and outcomes, as dictionaries or as a DataFrame.

from otel_agenteval.reader import Reader

reader = Reader("http://127.0.0.1:4319")
for trace in reader.traces(agent="shop", finding="tool_failed"): ...
scores = reader.outcomes(agent="shop", since="2026-11-01T00:00:00Z").frame()
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from otel_agenteval.doctor.web import NoWebAnswer, Web

if TYPE_CHECKING:
    import pandas

DEFAULT_URL: Final = "http://127.0.0.1:4319"
_PAGE: Final = 50
ABOUT: Final = ("trace_id", "session_id", "agent", "service", "started_at")
"""The fields of a trace that each of its outcomes carries."""


class ApiError(Exception):
    """Raised if there is no usable answer; the message is a sentence for the user."""


class UnknownError(ApiError):
    """Raised if the collector does not know the requested thing."""


class Rows:
    """Documents of the API, read page by page while they are iterated over. Each iteration reads them anew."""

    def __init__(self, read: Callable[[], Iterator[dict[str, Any]]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._read()

    def frame(self) -> "pandas.DataFrame":
        """Return a row for each document. An object within one becomes columns: `usage.input`. Lists stay lists.

        Raises ImportError if pandas is not installed, and ApiError.
        """
        try:
            import pandas  # noqa: PLC0415
        except ImportError as error:
            raise ImportError("a DataFrame takes pandas: pip install pandas") from error
        return pandas.json_normalize(list(self), max_level=1)


class Reader:
    """Reads from the web port of a collector. `api_key` is a key with the scope `read`, if the collector wants one.

    Filters are those of `GET /api/v1/traces`, `/sessions` and `/labels` (docs/api.md). None filters nothing.
    """

    def __init__(self, url: str = DEFAULT_URL, api_key: str | None = None) -> None:
        self._web = Web(url, api_key)

    def traces(self, **filters: str | None) -> Rows:
        """Return traces, the newest first."""
        return Rows(lambda: self._items("/api/v1/traces", filters))

    def sessions(self, **filters: str | None) -> Rows:
        """Return sessions, the newest first."""
        return Rows(lambda: self._items("/api/v1/sessions", filters))

    def labels(self, **filters: str | None) -> Rows:
        """Return labels, the newest first."""
        return Rows(lambda: self._items("/api/v1/labels", filters))

    def outcomes(self, **filters: str | None) -> Rows:
        """Return the outcomes of traces, each with the fields of its trace that `ABOUT` names."""

        def read() -> Iterator[dict[str, Any]]:
            for trace in self.traces(**filters):
                about = {name: trace[name] for name in ABOUT}
                yield from ({**about, **outcome} for outcome in trace["outcomes"])

        return Rows(read)

    def recordings(self, **filters: str | None) -> Rows:
        """Return traces as they were recorded: requests of OTLP/JSON."""

        def read() -> Iterator[dict[str, Any]]:
            for trace in self.traces(**filters):
                yield from self.get(f"/api/v1/traces/{trace['trace_id']}/otlp")["items"]

        return Rows(read)

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON document at `path`. Raises ApiError and UnknownError."""
        return answer_of(self._web, lambda web: web.get(path), "api_key")

    def _items(self, path: str, filters: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
        given = {name: value for name, value in filters.items() if value is not None}
        cursor: str | None = None
        while True:
            place = {"limit": str(_PAGE), **({} if cursor is None else {"cursor": cursor})}
            page = self.get(f"{path}?{urlencode({**given, **place})}")
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def answer_of(web: Web, ask: Callable[[Web], tuple[int, Any]], key_goes_in: str) -> dict[str, Any]:
    """Return the document that the collector answers with. An error about a key says what it `key_goes_in`.

    Raises ApiError, and UnknownError for a status of 404.
    """
    try:
        status, document = ask(web)
    except NoWebAnswer as problem:
        raise ApiError(f"{problem}: {problem.advice}") from problem
    if status == 401:
        which = "does not accept this key" if web.key else "wants a key"
        raise ApiError(f"the collector at {web.url} {which}: give it as {key_goes_in}")
    # Another service may answer at this address, with a page or with JSON of its own.
    match document:
        case {"error": {"message": str(message)}}:
            raise (UnknownError if status == 404 else ApiError)(message)
        case dict() if status == 200:
            return document
    raise ApiError(f"what answers at {web.url} is not a collector (status {status}): give the address of its web port")
