"""Write recorded content as text for a judge, and estimate the text's length.

The text is JSON in which nothing can end the field that the content stands in. A recorded string may hold anything
that an attacker likes. So more is escaped than JSON requires:
- `<`: no tag can be opened or closed. This covers the envelope's delimiters and chat-template tokens (`<|im_end|>`).
- `[` before text that reads as a template's token (`[INST]`, `[/TOOL_CALLS]`).
- Characters that are invisible or move others: controls, separators, zero-width and directional ones, tags,
  private ones, and lone surrogates. Other scripts are not escaped, as escapes would cost five times the tokens.
"""

import json
import math
import re
import string
import unicodedata

from otel_agenteval.model import Json

_TEMPLATE = re.compile(r"<|\[(?=/?[A-Z_]{2,32}\])")
_LETTERS = (string.ascii_letters + " ").encode()
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def encode(value: Json) -> str:
    """Write `value` as JSON on one line, safe between delimiters. Raises RecursionError."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    text = _TEMPLATE.sub(_escape, text)
    return text if text.isprintable() else "".join(map(_visible, text))


def tokens(text: str) -> int:
    """Estimate the number of tokens of `text` for a judge.

    The estimate is rather too high than too low, as no tokenizer fits all judges. It counts 1 token for 3 ASCII
    letters or spaces, and 2 for 3 other ASCII characters (digits and the marks of JSON and code). Elsewhere it counts
    1 token for 2 bytes of UTF-8.

    For recorded traces it gives 1.07 to 1.3 times the count of Llama 2's tokenizer, which is among the least thrifty.
    For random ids alone it gives about half of that count.
    """
    ascii_text = text.encode("ascii", "ignore")
    marks = len(ascii_text.translate(None, delete=_LETTERS))
    other_bytes = len(text.encode("utf-8", "surrogatepass")) - len(ascii_text)
    return math.ceil((len(ascii_text) + marks) / 3 + other_bytes / 2)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _visible(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) not in _UNSEEN:
        return character
    return json.dumps(character)[1:-1]
