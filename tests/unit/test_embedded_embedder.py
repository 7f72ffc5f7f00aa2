"""The embedded embedder against the library's own way to embed."""

from pathlib import Path

import numpy as np
import pytest
import wordllama
from agenteval_collector.embedders.embedded import MAX_CHARACTERS, EmbeddedEmbedder
from hypothesis import given
from hypothesis import strategies as st

EMBEDDER = EmbeddedEmbedder()
LIBRARY = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


PARTS = st.sampled_from(
    ["where", "is", "Order", "7", " ", "  ", "\n", "\u2581", "\u00a0", ".", "<s>", "</s>", "<unk>", "x" * 40]
)


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.lists(PARTS).map("".join))
def test_a_text_has_the_vector_that_the_library_gives_it(text: str) -> None:
    assert EMBEDDER.embed(text).tobytes() == LIBRARY.embed([text])[0].tobytes()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param("word " * MAX_CHARACTERS, ("word " * MAX_CHARACTERS)[:MAX_CHARACTERS], id="a long text is cut"),
        pytest.param("half \ud800 a pair", "half ? a pair", id="a lone surrogate is a question mark"),
    ],
)
def test_what_the_tokeniser_cannot_take(text: str, same: str) -> None:
    assert EMBEDDER.embed(text).tobytes() == LIBRARY.embed([same])[0].tobytes()


def test_the_empty_text_has_the_zero_vector() -> None:
    assert not np.any(EMBEDDER.embed(""))
