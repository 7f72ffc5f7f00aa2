"""Errors of the collector, sorted by what a caller does about them.

CollectorError
+ PermanentError      the same input fails again: refuse it, count it, say why
|  + InvalidRequest     not what it claims to be (malformed protobuf, bad JSON)
|  |  + UnsupportedMedia   a content type or encoding that is not read
|  + RequestTooLarge    over a limit that the message names
|  + NotFound           no such trace, session, page
|  + Forbidden          a request to write that may come from another site
|  |  + NotAllowed         the caller lacks the scope
|  + Unauthenticated    the caller is not known
+ RetryableError      the same input may succeed later: back off, by `retry_after` seconds
|  + Overloaded          a bound was reached; nothing was taken
|  + Unavailable         starting, stopping, or the disk refuses writes
+ Superseded          another process does this work by now: drop our part of it
+ Outdated            another process has changed the data this rests on: do it again
"""


class CollectorError(Exception):
    """A refusal of the collector; the message names what was wrong, where, and what to do."""


class PermanentError(CollectorError):
    """The same input fails again."""


class InvalidRequest(PermanentError):
    """The request is not what it claims to be."""


class UnsupportedMedia(InvalidRequest):
    """The request's content type or encoding is not read."""


class RequestTooLarge(PermanentError):
    """The request exceeds a limit."""


class NotFound(PermanentError):
    """Nothing is known under that id."""


class Forbidden(PermanentError):
    """The request may not write: it shows neither a page of ours as its origin, nor a key."""


class NotAllowed(Forbidden):
    """The caller is known, and lacks the scope that the request needs."""


class Unauthenticated(PermanentError):
    """The caller shows no key or certificate that is known."""


class RetryableError(CollectorError):
    """The same input may succeed after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Superseded(CollectorError):
    """Another process does this work by now. Nothing of it was stored here."""


class Outdated(CollectorError):
    """Another process has changed rows that were looked up for this work. Nothing of it was stored."""


class Overloaded(RetryableError):
    """A bound was reached; nothing of the request was taken."""


class QuotaExceeded(Overloaded):
    """The caller has sent more than its share; nothing of the request was taken. Others are served."""


class Unavailable(RetryableError):
    """The collector cannot take anything now."""
