"""Retry-After, in every form that endpoints send it."""

import pytest
from agenteval_collector.judge.client.retry_after import LONGEST, retry_after

NOW = 1_700_000_000_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="not said"),
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": " 1.5 "}, 1.5, id="part of a second"),
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, 0.25, id="milliseconds come first"),
        pytest.param({"retry-after-ms": "soon", "retry-after": "9"}, 9.0, id="unless they are none"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30.0, id="date"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 23:13:50 +0100"}, 30.0, id="date of another zone"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30.0, id="date of an unknown zone is UTC"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0, id="date in the past"),
        pytest.param({"retry-after": "-5"}, 0.0, id="negative"),
        pytest.param({"retry-after": "601"}, 600.0, id="longer than ten minutes"),
        pytest.param({"retry-after": "1e9"}, LONGEST, id="for ever"),
        pytest.param({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST, id="until the end of days"),
        pytest.param({"retry-after": "nan"}, None, id="not a number"),
        pytest.param({"retry-after": "inf"}, None, id="not finite"),
        pytest.param({"retry-after": ""}, None, id="empty"),
        pytest.param({"retry-after": "later, 32 Nov 99999 99:99:99 GMT"}, None, id="neither number nor date"),
    ],
)
def test_seconds_until_the_next_request(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == pytest.approx(seconds)
