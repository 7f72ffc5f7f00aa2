"""One pass over a text that tells which rules can match in it: mostly none. Takes RE2, and tells nothing without it."""

import re
from collections.abc import Sequence
from typing import Any, Final, Self

from otel_agenteval.redaction.encoded import ESCAPE, LONG
from otel_agenteval.redaction.kinds import Rule

_LOOK_BEHIND: Final = re.compile(r"\(\?<[!=](?:[^()\\\[]|\\.|\[[^\]]*\])*\)")
# RE2 has no look-around, and reads these for ASCII alone.
_UNLIKE_PYTHON: Final = re.compile(r"\(\?<?[!=]|\\[wWsSdDbB]|[+*?}]\+")
_MEMORY: Final = 16 << 20
"""The most bytes that the automaton of one prefilter takes. It begins anew when they are used up."""
_DOTTED: Final = "\u0130"
"""The one capital whose lower case, `i` and a dot above, no pattern takes for a form of `i`."""


class Prefilter:
    """The signs of rules and encodings as one automaton, which looks at each character of a text once."""

    def __init__(self, rules: Sequence[Rule], automaton: Any) -> None:
        """Take `rules` in the order of their numbers in `automaton`. The next numbers are those of encodings."""
        self._rules = rules
        self._match = automaton.Match

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> Self | None:
        """Make one. Return None without the package `google-re2`, and for rules that every text must be searched by, or
        whose signs RE2 would read otherwise."""
        patterns = [_pattern(rule) for rule in rules]
        signs = [pattern for pattern in (*patterns, ESCAPE.pattern, LONG.pattern) if pattern is not None]
        if len(signs) < len(patterns) + 2:
            return None
        try:
            # Imported here, because agents do without the package.
            import re2  # noqa: PLC0415
        except ImportError:
            return None
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        automaton = re2.Set.SearchSet(options)
        for sign in signs:
            automaton.Add(sign)
        automaton.Compile()
        return cls(rules, automaton)

    def look(self, text: str) -> tuple[Sequence[Rule], bool]:
        """Return the rules that may match in `text`, and whether it may hold an encoded text."""
        if _DOTTED in text:
            return self._rules, True
        try:
            found = sorted(self._match(text) or ())
        except UnicodeEncodeError:  # Half of a surrogate pair.
            return self._rules, True
        count = len(self._rules)
        return [self._rules[number] for number in found if number < count], found[-1:] >= [count]


def _pattern(rule: Rule) -> str | None:
    """Return an expression of RE2 that matches in every text in which `rule` may match. None if there is none."""
    if rule.signs:
        return f"(?i){'|'.join(map(re.escape, rule.signs))}"
    sign = "" if rule.sign is None else _LOOK_BEHIND.sub("", rule.sign.pattern)
    return sign if sign and _UNLIKE_PYTHON.search(sign) is None else None
