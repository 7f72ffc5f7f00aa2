"""Errors of the collector, along the one axis that callers act on.

CollectorError
+ PermanentError      the same input fails again: refuse it, count it, say why
|  + InvalidRequest     not what it claims to be (malformed protobuf, bad JSON)
|  |  + UnsupportedMedia   a content type or encoding that is not read
|  + RequestTooLarge    over a limit that the message names
|  + NotFound           no such trace, session, page
|  + Forbidden          a request to write that may come from another site
|  |  + NotAllowed         the caller has not the scope
|  + Unauthenticated    nobody knows who calls
+ RetryableError      the same input may succeed later: back off, by `retry_after` seconds
|  + Overloaded          a bound was reached; nothing was taken
|  + Unavailable         starting, stopping, or the disk refuses writes
+ Superseded          another process does this work by now: drop what was done of it
+ Outdated            another process has changed what this rests on: do it again
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
    """The request may not write: nothing says that it comes from a page of ours, or from who has a key."""


class NotAllowed(Forbidden):
    """The caller is known, and does not have the scope that this takes."""


class Unauthenticated(PermanentError):
    """The caller shows neither a key nor a certificate that is known."""


class RetryableError(CollectorError):
    """The same input may succeed after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Superseded(CollectorError):
    """Another process does this work by now; nothing of it was kept here."""


class Outdated(CollectorError):
    """Another process has changed what was looked up for it; nothing of it was kept."""


class Overloaded(RetryableError):
    """A bound was reached; nothing of the request was taken."""


class Unavailable(RetryableError):
    """The collector cannot take anything now."""
