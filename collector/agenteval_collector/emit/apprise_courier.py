"""Sends messages by Apprise, which knows chats, mail and pagers (the extra `notify`)."""

import logging

import apprise

logger = logging.getLogger(__name__)


class AppriseCourier:
    """One place that messages are sent to. A place that does not answer within some seconds has not taken the message:
    four to connect and four to answer, unless the address says otherwise (`cto`, `rto`)."""

    def __init__(self, url: str) -> None:
        """Raises ValueError for an address that Apprise does not know. The error does not repeat it: it holds keys."""
        self._apprise = apprise.Apprise()
        self._kind = url.partition(":")[0][:20]
        if not self._apprise.add(url):
            raise ValueError(f"an address that begins with {self._kind!r} is none that Apprise knows")

    def send(self, title: str, body: str) -> bool:
        """Send a message. Return whether the place has taken it."""
        taken = self._apprise.notify(body=body, title=title, body_format=apprise.NotifyFormat.TEXT)
        if not taken:
            logger.warning("a notification by %s was not taken; it is tried again", self._kind)
        return bool(taken)
