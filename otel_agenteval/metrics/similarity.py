"""Lexical overlap of two texts: the Jaccard index of their token sets.

A token is a sequence of at least two Unicode word characters, lower-cased, that is not one of 70 English stop words. It
counts once, however often it occurs. This is the tokeniser of the published loop metric. `compatible=True` uses no
other. The tokeniser fails on scripts without spaces between words (Chinese, Japanese, Thai: a sentence is one token).
It also fails if combining marks split words (Hindi: nothing is left), and on texts of symbols or stop words only. So
a text is compared by character trigrams if it has no token, or fewer than one occurrence of a token per 15 characters.

Both texts of a pair are compared in the same way: by trigrams if one of them needs it. So the measure is symmetric,
texts on either side of the limit still find their overlap, and a text equals itself in every language.
"""

import re
from functools import cached_property

CHARACTERS_PER_TOKEN = 15
"""The number of characters per token above which the tokeniser cannot read the text."""

_TOKEN = re.compile(r"\w\w+")

STOP_WORDS = frozenset(
    """
    a above after all an and any are as at be been before being below both but by can could did do does during each
    either every few for from had has have in into is it its may might more most neither no nor not of on only or
    other own same shall should so some such than the through to too very was were will with would yet
    """.split()  # noqa: SIM905 - seventy lines of one word each say no more
)


class TokenSets:
    """The token sets of one text. Build it once and compare it many times."""

    def __init__(self, text: str, compatible: bool = False) -> None:
        """Read `text`. `compatible` keeps the published tokeniser for every text. Raises ValueError if it is no str."""
        if not isinstance(text, str):
            raise ValueError(f"the text is {text!r:.200}, not a string")
        lowered = text.lower()
        tokens = [token for token in _TOKEN.findall(lowered) if token not in STOP_WORDS]
        # Indentation and blank lines are not content: they must not decide how a text is read.
        self._text = " ".join(lowered.split())
        self.words = frozenset(tokens)
        self.needs_trigrams = not compatible and (not tokens or len(tokens) * CHARACTERS_PER_TOKEN < len(self._text))

    @cached_property
    def trigrams(self) -> frozenset[str]:
        """All sequences of three characters, with any white space as one space. A shorter text is one sequence."""
        text = self._text
        if not text:
            return frozenset()
        return frozenset(text[start : start + 3] for start in range(max(1, len(text) - 2)))

    def overlap(self, other: "TokenSets") -> float:
        """Return the Jaccard index, in [0, 1]: tokens in both texts / tokens in either. 0.0 if neither has a token."""
        if self.needs_trigrams or other.needs_trigrams:
            return _jaccard(self.trigrams, other.trigrams)
        return _jaccard(self.words, other.words)


def jaccard_similarity(a: str, b: str, compatible: bool = False) -> float:
    """Return the Jaccard index of the token sets of two texts, in [0, 1]. 0.0 if neither has a token.

    `compatible=True` keeps the published tokeniser if trigrams would be used (see the module's description).
    """
    return TokenSets(a, compatible).overlap(TokenSets(b, compatible))


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    common = len(a & b)
    total = len(a) + len(b) - common
    return common / total if total else 0.0
