"""Find the trace that another one goes on from. Pure."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from agenteval_collector.model.links import Link
from otel_agenteval.model import Conversation, Trace


def link_of(trace: Trace) -> Link:
    """The trace as the only one of its session; without digests where it is in none that messages make."""
    said = trace.conversation if trace.session_id is None else None
    user = trace.user_id or ""
    known = said or Conversation()
    return Link(
        trace_id=trace.trace_id,
        session_id=trace.session_id or trace.trace_id,
        service=trace.service or "",
        started_at=trace.started_at,
        follows=_of_user(known.follows, user),
        asked=_of_user(known.asked, user),
        said=_of_user(known.said, user),
        reply=_of_user(known.reply, user),
        calls=_of_user(known.calls, user),
        called=_of_user(known.called, user),
        keeps_calls=known.keeps_calls,
        answered=bool(trace.turns) and trace.turns[-1].error is None,
    )


def parent_of(link: Link, enders: Sequence[Link]) -> Link | None:
    """The trace that `link` goes on from, of the traces that end in what it follows; None where that is not certain:
    where several traces end alike, whose the link is cannot be known."""
    earlier = [each for each in enders if each.place < link.place]
    if link.asked is not None:
        named = [each for each in earlier if each.called == link.asked]
        earlier = named or [each for each in earlier if each.called is None]
    else:
        # Some programs forget the calls of earlier turns, but not one that was seen to send them.
        earlier = [each for each in earlier if not (each.keeps_calls and each.said == link.follows)]
    return earlier[0] if len(earlier) == 1 else None


def is_fork(link: Link, parent: Link, enders: Sequence[Link], rivals: Iterable[Link]) -> bool:
    """Whether another one of `rivals`, which follow the same, goes on from `parent` before `link`, or is sent its calls
    where `link` is sent none. A call that was not answered is not before: it was tried again."""
    others = [each for each in rivals if each.trace_id != link.trace_id and parent_of(each, enders) is parent]
    knowing = [each for each in others if _has_calls_of(each, parent)]
    if _has_calls_of(link, parent):
        others = knowing
    elif knowing:
        return True
    return any(each.answered and each.place < link.place for each in others)


def _has_calls_of(link: Link, parent: Link) -> bool:
    return link.asked is not None and link.asked == parent.called


def _of_user(digest: bytes | None, user: str) -> bytes | None:
    """Two users are never taken for one another where they are named."""
    if digest is None or not user:
        return digest
    return blake2b(user.encode("utf-8", "surrogatepass") + b"\0" + digest, digest_size=len(digest)).digest()
