"""Find the trace that another one goes on from. Pure."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from agenteval_collector.links import Link
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
        answered=bool(trace.turns) and trace.turns[-1].error is None,
    )


def parent_of(link: Link, enders: Sequence[Link]) -> Link | None:
    """The trace that `link` goes on from, of the traces that end in what it follows; None where that is not certain:
    where several traces end alike, whose the link is cannot be known."""
    earlier = [each for each in enders if each.place < link.place]
    if link.asked is not None:
        named = [each for each in earlier if each.called == link.asked]
        earlier = named or [each for each in earlier if each.called is None]
    return earlier[0] if len(earlier) == 1 else None


def is_fork(link: Link, parent: Link, enders: Sequence[Link], rivals: Iterable[Link]) -> bool:
    """Whether another one of `rivals`, which follow the same, goes on from `parent` before `link`. A call that was not
    answered does not count: it was tried again."""
    return any(
        rival.answered and rival.place < link.place and parent_of(rival, enders) is parent
        for rival in rivals
        if rival.trace_id != link.trace_id
    )


def _of_user(digest: bytes | None, user: str) -> bytes | None:
    """Two users are never taken for one another where they are named."""
    if digest is None or not user:
        return digest
    return blake2b(user.encode("utf-8", "surrogatepass") + b"\0" + digest, digest_size=len(digest)).digest()
