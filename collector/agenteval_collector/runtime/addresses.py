"""Tell IP addresses from names, and this machine from others."""

import ipaddress


def is_address(host: str) -> bool:
    """Return whether `host`, without port or brackets, is an IP address. Unlike a name, an address cannot be pointed
    elsewhere by DNS."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether `host`, without port or brackets, is this machine as seen from itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_address(host) and ipaddress.ip_address(host).is_loopback


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` and `[v6]:port` in parts. Raises ValueError if there is no port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
