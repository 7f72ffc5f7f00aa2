"""The net for tokens of no known form: what it takes, what it leaves, and what it costs."""

import random
import string
import time

import pytest

from otel_agenteval.redaction import OwnPatterns, Redactor
from otel_agenteval.redaction.unknown_tokens import unknown_tokens
from tests.support.redaction_corpus import ordinary

NET = OwnPatterns({}, tokens=True)
LETTERS = string.ascii_letters + string.digits


def test_random_tokens_of_no_form_are_found_where_the_net_is_on_and_nowhere_else() -> None:
    drawn = random.Random(4)
    tokens = ["".join(drawn.choices(LETTERS, k=drawn.randrange(24, 60))) for _ in range(200)]
    texts = [f"it answered {token}, then nothing" for token in tokens]
    passed = [text for text in texts if Redactor(own=NET).redact(text) != "it answered [SECRET_1], then nothing"]
    assert len(passed) <= 4
    assert len([text for text in texts if Redactor().redact(text) == text]) >= 190


@pytest.mark.parametrize(
    "text",
    [
        "3f2a8c1e-1111-4222-8333-944455556666",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "call_Zx8Cv8bNm7LkJh6GfDs5aQw4",
        "2026-03-02T12:03:00.123456789Z",
        "/usr/lib/python3.11/site-packages/otel_agenteval",
        "a_function_with_a_rather_long_name_2",
        "HTTPServerConnectionPoolManager2",
    ],
)
def test_ids_digests_times_paths_and_names_stay(text: str) -> None:
    assert not list(unknown_tokens(text))


def test_few_ordinary_texts_are_altered() -> None:
    texts = ordinary()
    assert sum(Redactor(own=NET).redact(text) != text for text in texts) <= 0.02 * len(texts)


@pytest.mark.parametrize("piece", ["aB3", "aB3xK9mQ2vR7tY5wE1z ", "=" * 19 + " ", "a1/"])
def test_the_net_costs_in_proportion(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    begun = time.process_time()
    list(unknown_tokens(text))
    assert time.process_time() - begun < 2.0
