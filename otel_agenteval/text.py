"""Text on its way out of this process."""


def storable(text: str) -> str:
    """Return the text as UTF-8 can hold it: half a surrogate pair, which JSON may hold, becomes a question mark."""
    return text.encode(errors="replace").decode()


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` characters. An ellipsis ends one that was longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
