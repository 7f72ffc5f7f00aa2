"""Two services with an agent of the same name, over HTTP, on the page and by the command: two agents throughout."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.integration.test_cli_read import agenteval
from tests.support import asking
from tests.support.clock import ManualClock
from tests.support.otlp import START, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

SHOP, BANK = range(1, 5), range(11, 15)


def request(number: int, service: str, *, failed: bool, version: str) -> ExportTraceServiceRequest:
    root = turn(number, f"question {number}", None if failed else "answer")
    if failed:
        root.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="the model is overloaded"))
    sent = traces(root, service=service)
    sent.resource_spans[0].resource.attributes.add(key="service.version").value.string_value = version
    return sent


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """The planner of the shop fails 4 of 4 times, that of the bank never."""
    folder: Path = tmp_path_factory.mktemp("store")
    with RunningCollector(folder, ManualClock(START + 60 * 10**9)) as running:
        for number in (*SHOP, *BANK):
            service = "shop" if number in SHOP else "bank"
            running.send(request(number, service, failed=number in SHOP, version=str(number % 2 + 1)))
        for number in (*SHOP, *BANK):
            running.scored(trace_id(number).hex())
        yield running


def items(collector: RunningCollector, path: str) -> list[Any]:
    found: list[Any] = collector.get(f"/api/v1/{path}")["items"]
    return found


def test_each_has_its_row_and_its_problem(collector: RunningCollector) -> None:
    rows = {each["service"]: each for each in items(collector, "agents")}
    assert {each["agent"] for each in rows.values()} == {"planner"}
    assert {name: (each["errors"]["count"], each["errors"]["traces"]) for name, each in rows.items()} == {
        "shop": (4, 4),
        "bank": (0, 4),
    }
    assert {name: each["problems"]["error"] for name, each in rows.items()} == {"shop": 1, "bank": 0}
    assert [(each["service"], each["traces"]) for each in items(collector, "problems?agent=planner")] == [("shop", 4)]
    assert items(collector, "problems?agent=planner&service=bank") == []


@pytest.mark.parametrize("what", ["sessions", "traces"])
def test_a_filter_by_name_means_both_and_the_service_tells_them_apart(collector: RunningCollector, what: str) -> None:
    assert len(items(collector, f"{what}?agent=planner")) == 8
    for service, numbers in (("shop", SHOP), ("bank", BANK)):
        found = items(collector, f"{what}?agent=planner&service={service}")
        assert {each["trace_id" if what == "traces" else "session_id"] for each in found} == {
            trace_id(number).hex() for number in numbers
        }
    assert {each["service"] for each in items(collector, f"{what}?agent=planner&service=bank")} == {"bank"}


def test_an_address_that_fits_both_is_refused_with_their_names(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['web']}"
    refused = asking.get(f"{url}/api/v1/agents/planner")
    assert refused.status_code == 400
    assert "several services have an agent 'planner': 'bank', 'shop'; give service" in refused.text
    shop = asking.get(f"{url}/api/v1/agents/planner?service=shop").json()
    assert (shop["service"], shop["errors"]["count"]) == ("shop", 4)
    assert asking.get(f"{url}/api/v1/agents/planner?service=office").status_code == 404


def test_the_page_names_the_service_and_its_links_lead_to_one(collector: RunningCollector) -> None:
    listing = collector.get("/agents")
    assert "/agents/planner?service=bank" in listing
    page = collector.get("/agents/planner?service=shop")
    assert "<h1>planner in shop</h1>" in page
    assert "/problems?agent=planner&amp;service=shop" in page


def test_versions_are_compared_within_a_service(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['web']}"
    both = agenteval("compare", "planner", "1", "2", "--url", url)
    assert both.exit_code != 0
    assert "give service" in both.stderr
    for service, share in (("shop", 1.0), ("bank", 0.0)):
        printed = agenteval("compare", "planner", "1", "2", "--service", service, "--json", "--url", url).stdout
        document = json.loads(printed)
        [errors] = [each for each in document["figures"] if each["name"] == "traces with an error"]
        assert (document["service"], errors["before"], errors["after"]) == (service, share, share)
    assert "planner in shop" in agenteval("agents", "--url", url).stdout


def test_series_have_the_service(collector: RunningCollector) -> None:
    lines = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_traces_total{")]
    assert {(line.partition('service_name="')[2].partition('"')[0], 'worst="error"' in line) for line in lines} >= {
        ("shop", True),
        ("bank", False),
    }
