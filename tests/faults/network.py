"""Networks to cut: processes in network namespaces of their own, on two switches. As root on Linux, with iproute2.

What leads to the broker is on the one switch, what leads to the database on the other. A cable that is pulled refuses
nothing and carries nothing, and what waits on either side goes on when it is back.
"""

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_NETS = ("198.18", "198.19")
"""Kept for tests by RFC 2544: nobody's real network is hidden."""


class Switch:
    """A bridge with an address of this machine; cables lead from it to namespaces."""

    def __init__(self, name: str, net: str) -> None:
        """`net` are the first three bytes of its addresses."""
        self.name = name
        self.net = net
        self.address = f"{net}.1"
        _ip("link", "add", name, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", name)
        _ip("link", "set", name, "up")

    def close(self) -> None:
        """Take it away."""
        _ip("link", "delete", self.name)


class Cable:
    """Leads from a switch to a namespace."""

    def __init__(self, switch: Switch, namespace: str, number: int, name: str) -> None:
        """`name` is its end at the switch; the `number` its address there."""
        self._switch, self._name = switch, name
        inside = f"{name}i"
        _ip("link", "add", name, "type", "veth", "peer", "name", inside, "netns", namespace)
        _ip("-n", namespace, "addr", "add", f"{switch.net}.{number}/24", "dev", inside)
        _ip("-n", namespace, "link", "set", inside, "up")
        self.plug()
        _ip("link", "set", name, "up")

    def pull(self) -> None:
        """Let nothing through any more."""
        _ip("link", "set", self._name, "nomaster")

    def plug(self) -> None:
        """Let all through."""
        _ip("link", "set", self._name, "master", self._switch.name)


class Namespace:
    """Where a process sees broker and database through two cables, and nothing else."""

    def __init__(self, network: "Network", number: int) -> None:
        self.name = f"{network.stem}{number}"
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.to_broker = Cable(network.of_broker, self.name, number, f"{self.name}k")
        self.to_database = Cable(network.of_database, self.name, number, f"{self.name}d")

    @property
    def inside(self) -> tuple[str, ...]:
        """What runs a command inside, in front of it."""
        return "ip", "netns", "exec", self.name

    def close(self) -> None:
        """Take it away, and its cables with it."""
        _ip("netns", "delete", self.name)


class Network:
    """Two switches, and the namespaces at them."""

    def __init__(self) -> None:
        """Raises OSError or CalledProcessError where that is not possible."""
        # Several may be on a machine. Names of interfaces have 15 characters at most.
        self.stem = f"ae{os.getpid() % 100_000}x"
        nets = [f"{net}.{os.getpid() % 256}" for net in _NETS]
        self._numbers = itertools.count(2)
        self._namespaces: list[Namespace] = []
        self.of_broker = Switch(f"{self.stem}k", nets[0])
        self.of_database = Switch(f"{self.stem}d", nets[1])

    def namespace(self) -> Namespace:
        """Make a namespace with both cables plugged in."""
        made = Namespace(self, next(self._numbers))
        self._namespaces.append(made)
        return made

    def close(self) -> None:
        """Take all away."""
        for each in self._namespaces:
            each.close()
        for switch in (self.of_broker, self.of_database):
            switch.close()


@contextmanager
def network() -> Iterator[Network | None]:
    """Yield a network; None where none can be made here."""
    made = None
    with suppress(OSError, subprocess.CalledProcessError):
        made = Network()
    try:
        yield made
    finally:
        if made is not None:
            made.close()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)
