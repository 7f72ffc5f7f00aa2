import json
import math
from typing import Any

import pytest
from agenteval_collector.serve.api.wire import encode
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters()) | st.floats()
DOCUMENTS = st.dictionaries(
    st.text(st.characters()),
    st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20),
)


def named(value: Any) -> Any:
    """The slow, obvious oracle: floats that JSON does not have, by their names."""
    if isinstance(value, dict):
        return {key: named(item) for key, item in value.items()}
    if isinstance(value, list):
        return [named(item) for item in value]
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return f"{value}"
    return value


@given(DOCUMENTS)
def test_every_document_has_a_json_that_any_reader_takes(document: dict[str, Any]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = encode(document).decode("ascii")
    assert json.loads(text, parse_constant=refuse) == named(document)


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\u202e", "\ud800", "é"])
def test_nothing_but_ascii_is_sent(character: str) -> None:
    assert encode({"text": character}).isascii()
