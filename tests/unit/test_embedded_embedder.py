"""The embedded embedder against the library's own way to embed."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import wordllama
from agenteval_collector.evaluation.embedding import MAX_CHARACTERS, EmbeddedEmbedder
from hypothesis import given
from hypothesis import strategies as st


@cache
def embedders() -> tuple[EmbeddedEmbedder, wordllama.WordLlamaInference]:
    """Ours and the library's: each loads all words, so only where a test asks for them."""
    folder = Path(wordllama.__file__).parent
    return EmbeddedEmbedder(), wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


PARTS = st.sampled_from(
    ["where", "is", "Order", "7", " ", "  ", "\n", "\u2581", "\u00a0", ".", "<s>", "</s>", "<unk>", "x" * 40]
)


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.lists(PARTS).map("".join))
def test_a_text_has_the_vector_that_the_library_gives_it(text: str) -> None:
    ours, library = embedders()
    assert ours.embed(text).tobytes() == library.embed([text])[0].tobytes()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param("word " * MAX_CHARACTERS, ("word " * MAX_CHARACTERS)[:MAX_CHARACTERS], id="a long text is cut"),
        pytest.param("half \ud800 a pair", "half ? a pair", id="a lone surrogate is a question mark"),
    ],
)
def test_what_the_tokeniser_cannot_take(text: str, same: str) -> None:
    ours, library = embedders()
    assert ours.embed(text).tobytes() == library.embed([same])[0].tobytes()


def test_the_empty_text_has_the_zero_vector() -> None:
    ours, _ = embedders()
    assert not np.any(ours.embed(""))
