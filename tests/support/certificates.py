"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest


class Certificate(NamedTuple):
    """PEM files of a certificate, and of its key."""

    certificate: Path
    key: Path

    def pair(self) -> tuple[bytes, bytes]:
        """Key and certificate, as gRPC takes them."""
        return self.key.read_bytes(), self.certificate.read_bytes()


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


def self_signed(folder: Path, name: str = "localhost", names: str = "DNS:localhost,IP:127.0.0.1") -> Certificate:
    """A certificate for servers with these names, also as an authority; skips the test where openssl is missing."""
    if which("openssl") is None:
        pytest.skip("openssl is not installed; it makes the certificates of this test")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def signed(folder: Path, authority: Certificate, name: str) -> Certificate:
    """A client's certificate with this common name."""
    made, request = Certificate(folder / f"{name}.pem", folder / f"{name}.key"), folder / f"{name}.csr"
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", str(made.key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority.certificate), "-CAkey", str(authority.key)),
        *("-CAcreateserial", "-days", "2", "-out", str(made.certificate)),
    )
    return made
