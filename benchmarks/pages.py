"""Time of each page and of the lists of the API, on a store of many sessions.

The store is filled without a collector. Then a collector in this process opens it, and each address is requested over
HTTP by itself. The CPU is that of the process, which other work on the machine does not change. After that, all
addresses are requested once more, while another client requests /healthz all the time. Its longest wait is the longest
time for which the event loop stood still.

    python -m benchmarks.pages [--sessions N] [--longest N] [--spans N] [--rounds N] [--json]
"""

import json
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agenteval_collector.app.collector import Collector
from agenteval_collector.config.sources import load

from benchmarks.harness import arguments, report
from benchmarks.stored import fill, trace_id

TARGET_MS = 300
ANY_PORT = {"grpc_address": "127.0.0.1:0", "http_address": "127.0.0.1:0", "web_address": "127.0.0.1:0"}


def main() -> None:
    """Run as a script."""
    given = arguments(__doc__, sessions=10_000, longest=500, spans=10_000, rounds=5)
    with tempfile.TemporaryDirectory(prefix="agenteval-bench-") as folder:
        fill(Path(folder), sessions=given.sessions, longest=given.longest, spans=given.spans)
        results = measure(Path(folder), given.rounds)
    report(
        f"Views of {given.sessions} sessions of up to {given.longest} traces: p50 / max / CPU, ms",
        results,
        as_json=given.json,
    )


def measure(folder: Path, rounds: int) -> Mapping[str, str]:
    """Return p50, maximum and CPU of each address, and the longest wait for /healthz beside all of them."""
    with _collector(folder) as url:
        asked, results = addresses(url), {}
        for name, path in asked.items():
            begun = time.process_time()
            times = [_seconds(url + path) * 1000 for _ in range(rounds)]
            cpu = (time.process_time() - begun) / rounds * 1000
            results[name] = f"{statistics.median(times):.0f} / {max(times):.0f} / {cpu:.0f}"
        with _watched(f"{url}/healthz") as waits:
            for path in asked.values():
                _seconds(url + path)
        results["longest wait for /healthz beside them"] = f"{max(waits) * 1000:.0f}"
    return results


def addresses(url: str) -> dict[str, str]:
    """Return the requested addresses, each by a name for it."""
    long, whole = "s00000", trace_id(0, 0)
    second = _json(f"{url}/api/v1/sessions?order=attention")["next_cursor"]
    problem = _json(f"{url}/api/v1/problems")["items"][0]["problem_id"]
    page, api = "/sessions", "/api/v1/sessions"
    return {
        "page: first view": "/",
        "page: sessions": page,
        "page: sessions, second page": f"{page}?cursor={second}",
        "page: sessions of an agent": f"{page}?agent=agent-3",
        "page: sessions, text that some said": f"{page}?text=book17",
        "page: sessions, text that nobody said": f"{page}?text=nobody-said-this",
        "page: session of the most traces": f"/sessions/{long}",
        "page: its oldest traces": f"/sessions/{long}?older_than=51",
        "page: trace": f"/traces/{trace_id(0, 1)}",
        "page: trace of many spans": f"/traces/{whole}",
        "page: one of its spans": f"/traces/{whole}?span={2:016x}",
        "page: problems": "/problems",
        "page: a problem": f"/problems/{problem}",
        "page: rates of passing": "/quality",
        "api: sessions, newest": api,
        "api: sessions, attention": f"{api}?order=attention&limit=500",
        "api: sessions of a version": f"{api}?version=1.2&order=attention",
        "api: sessions of a service": f"{api}?service=service-2",
        "api: sessions of a user": f"{api}?user=user-17",
        "api: sessions with a kind of finding": f"{api}?finding=no_answer&order=attention",
        "api: sessions with a kind that nobody has": f"{api}?finding=turn_failed",
        "api: sessions with a score below": f"{api}?below=task_completion:0.3&order=attention",
        "api: sessions with none below": f"{api}?below=task_completion:0.001",
        "api: sessions, text that nobody said": f"{api}?text=nobody-said-this&order=attention",
        "api: sessions before a time": f"{api}?until=2020-01-01T00:00:00Z",
        "api: session of the most traces": f"{api}/{long}",
        "api: trace": f"/api/v1/traces/{trace_id(0, 1)}",
        "api: spans of a large trace": f"/api/v1/traces/{whole}/spans",
        "api: problems": "/api/v1/problems?limit=500",
        "api: problems of an agent": "/api/v1/problems?agent=agent-3",
        "api: rates of passing": "/api/v1/quality",
        "api: reliability": "/api/v1/reliability",
    }


@contextmanager
def _collector(folder: Path) -> Iterator[str]:
    service = Collector(load(environ={}, flags={"data_dir": str(folder), "server": ANY_PORT}))
    try:
        yield f"http://{service.start()['web']}"
    finally:
        service.shutdown()


@contextmanager
def _watched(url: str) -> Iterator[list[float]]:
    """Request `url` again and again from another thread. Yield the list of the seconds that each answer took."""
    waits, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            waits.append(_seconds(url))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


def _seconds(url: str) -> float:
    begun = time.perf_counter()
    with urllib.request.urlopen(url, timeout=30) as answer:
        answer.read()
    return time.perf_counter() - begun


def _json(url: str) -> dict[str, list[dict[str, str]]]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        found: dict[str, list[dict[str, str]]] = json.load(answer)
        return found


if __name__ == "__main__":
    main()
