"""Rules that decide which trace continues which. All functions are pure."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from agenteval_collector.model.conversation_links import ConversationLink
from otel_agenteval.model import ConversationDigests, Trace

RETRY: Final = 60 * 1_000_000_000
"""Nanoseconds after a failed first call, within which a next attempt is joined to it."""


def link_of(trace: Trace) -> ConversationLink:
    """Return the link of a trace, as if the trace were alone in its session.

    It has no digests if no messages join the trace to others.
    """
    user = trace.user_id or ""
    known = trace.conversation or ConversationDigests()
    answered = bool(trace.turns) and trace.turns[-1].error is None
    follows, said = known.follows, known.said
    if known.begins is not None and user:
        # The same first words are another attempt only if the user is named: in an outage many users fail alike.
        follows, said = known.begins, said if answered else known.begins
    elif known == ConversationDigests(reply=known.reply):
        # Only the reply's id is known: this records a call once more without content. It joins the trace that has the
        # same reply with its words.
        follows, answered = known.reply, False
    return ConversationLink(
        trace_id=trace.trace_id,
        session_id=trace.session_id or trace.trace_id,
        service=trace.service or "",
        started_at=trace.started_at,
        ended_at=trace.ended_at,
        named=trace.session_id,
        follows=_of_user(follows, user),
        said=_of_user(said, user),
        reply=_of_user(known.reply, user),
        calls=_of_user(known.calls, user),
        answered=answered,
    )


def parent_of(link: ConversationLink, enders: Sequence[ConversationLink]) -> ConversationLink | None:
    """Return the trace that `link` continues, one of `enders`. These are the traces that end in what `link` follows.

    Return None if there is none, or if several end alike, so that none is certain.
    """
    earlier = [each for each in enders if each.place < link.place and _may_be_one(link, each)]
    # One that names the same session is surer than one that names none.
    same = [each for each in earlier if each.named is not None and each.named == link.named]
    earlier = same or earlier
    whole = [each for each in earlier if not each.is_second_record]
    if link.is_second_record:
        # It records the same call, so it began before the trace with the words ended.
        earlier = [each for each in whole if link.started_at <= each.ended_at]
    else:
        # A second record stands for the call only if nothing has the words.
        earlier = whole or earlier
    if earlier and all(each.is_attempt for each in earlier):
        latest = max(earlier, key=lambda each: each.place)
        return latest if link.started_at <= latest.ended_at + RETRY else None
    return earlier[0] if len(earlier) == 1 else None


def is_fork(
    link: ConversationLink,
    parent: ConversationLink,
    enders: Sequence[ConversationLink],
    rivals: Iterable[ConversationLink],
) -> bool:
    """Return whether another link continues `parent` before `link` does.

    `rivals` are the links that follow the same as `link`. A rival without an answer does not count, because it was
    tried again. A rival that names the parent's session comes before one that does not.
    """
    place = _rank(link, parent)
    others = (each for each in rivals if each.trace_id != link.trace_id and each.answered)
    return any(_rank(each, parent) < place and parent_of(each, enders) is parent for each in others)


def _rank(link: ConversationLink, parent: ConversationLink) -> tuple[bool, tuple[int, str]]:
    return parent.named is not None and link.named != parent.named, link.place


def _may_be_one(one: ConversationLink, other: ConversationLink) -> bool:
    return one.named is None or other.named is None or one.named == other.named


def _of_user(digest: bytes | None, user: str) -> bytes | None:
    """Return the digest combined with the user. So two named users are never taken for one another."""
    if digest is None or not user:
        return digest
    return blake2b(user.encode("utf-8", "surrogatepass") + b"\0" + digest, digest_size=len(digest)).digest()
