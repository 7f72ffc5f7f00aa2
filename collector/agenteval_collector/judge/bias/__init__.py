"""Test whether the judge minds what must not matter: ask it again about traces that are changed in one such way."""
