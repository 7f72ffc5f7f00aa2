"""WordLlama: static token embeddings that ship inside its wheel. It needs no service and no network."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_CHARACTERS = 4000
"""The most characters that are embedded. Of a longer text, only the beginning is.

The mean over more tokens says little more, and takes longer.
"""
_MOST_WORDS = 50_000
"""Words whose tokens are remembered: about 15 MB. Before there are more, all are forgotten."""
_LONGEST_WORD = 32
"""Characters of a word that is remembered. Longer words are rare."""
_SPACE = "\u2581"
"""Stands for a space in the model's vocabulary."""


class EmbeddedEmbedder:
    """Embeds texts into 256 dimensions, not normalised. All embedders of a process share one model of 30 MB."""

    model = "wordllama/l2_supercat_256"

    def __init__(self) -> None:
        model = _loaded()
        self._token_ids = _token_ids()
        self._tokens: npt.NDArray[np.float32] = model.embedding

    def embed(self, text: str) -> npt.NDArray[np.float32]:
        """Return the vector of one text.

        It equals that of the model's own `embed` to the bit. It takes half the time, as the model also does work for
        batches.
        """
        # Recorded JSON may hold lone surrogates. The tokeniser takes UTF-8, which cannot.
        clean = text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        tokens = self._token_ids(clean)
        rows = self._tokens.take(np.fromiter(tokens, np.intp, len(tokens)), axis=0)
        total: npt.NDArray[np.float32] = np.add.reduce(rows, axis=0)
        return total / np.float32(max(len(tokens), 1))


@cache
def _token_ids() -> Callable[[str], Sequence[int]]:
    """Return the function that tokenises texts. It remembers words.

    The tokeniser merges pairs of bytes over a whole text, which takes most of an embedding's time. This is cut short
    if no entry of its vocabulary has a space behind another character. Then no merge crosses the beginning of a
    word, and the tokens of a text are those of its words. A text with a special token is tokenised whole, because the
    parts beside that token are normalised apart.
    """
    tokenizer = _loaded().tokenizer
    special = re.compile("|".join(re.escape(token.content) for token in tokenizer.get_added_tokens_decoder().values()))
    space = [tokenizer.token_to_id(_SPACE)]

    def tokenize(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids

    if any(_SPACE in entry.lstrip(_SPACE) for entry in tokenizer.get_vocab()):
        return tokenize
    # The normaliser puts a space before what it is given, but nothing before an empty text.
    tokens_of = _Words(lambda word: tokenize(word) if word else space)

    def token_ids(text: str) -> Sequence[int]:
        if not text or special.search(text):
            return tokenize(text)
        words = text.replace(_SPACE, " ").split(" ")
        if "" in words:
            words = _with_spaces(words)
        return list(chain.from_iterable(map(tokens_of.__getitem__, words)))

    return token_ids


class _Words(dict[str, list[int]]):
    """The tokens of words, found when they are first asked for. Several threads may ask."""

    def __init__(self, tokenize: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._tokenize = tokenize

    def __missing__(self, word: str) -> list[int]:
        tokens = self._tokenize(word)
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = tokens
        return tokens


def _with_spaces(texts: Sequence[str]) -> list[str]:
    """Return the words of a text that was split at single spaces.

    Further spaces in a row belong to the word behind them.
    """
    words: list[str] = []
    before = ""
    for text in texts:
        if text:
            words.append(before + text)
            before = ""
        else:
            before += _SPACE
    return [*words, before[1:]] if before else words


@cache
def _loaded() -> Any:
    """Load the model. Nobody changes it, so it is shared."""
    # Imported only when needed. The import takes half a second, and configures the root logger if nobody has.
    import wordllama  # noqa: PLC0415

    # By default its loader looks for the weights in a cache folder and then downloads them. The wheel has them.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
