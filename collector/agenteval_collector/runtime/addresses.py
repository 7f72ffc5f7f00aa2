"""Addresses of this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether `host`, without port or brackets, is this machine as seen from itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
