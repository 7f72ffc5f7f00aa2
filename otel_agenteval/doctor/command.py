"""The command line of `agenteval doctor`."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from otel_agenteval.config import AGENTEVAL_API_KEY, Options
from otel_agenteval.doctor.checks import Check, State, as_json, as_text
from otel_agenteval.doctor.collector import about_collector
from otel_agenteval.doctor.environment import about_endpoint, about_environment, installed
from otel_agenteval.doctor.web import Web

_DEFAULT_URL = "http://127.0.0.1:4319"
_ENDS = """exit code: 1 where a check is an error, else 0. Nothing is changed, and nothing costs anything."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run all checks, print them, and end the process with exit code 1 if one is an error, else 0."""
    options = _parser().parse_args(arguments)
    checks = list(_checks(options))
    sys.stdout.write(as_json(checks) if options.json else as_text(checks))
    raise SystemExit(any(check.state is State.ERROR for check in checks))


def _checks(options: argparse.Namespace) -> Iterator[Check]:
    environ = dict(os.environ)
    if options.api_key:
        environ[AGENTEVAL_API_KEY] = options.api_key
    versions = installed()
    yield from about_environment(environ, versions)
    yield from about_endpoint(Options(endpoint=options.endpoint, certificate=options.certificate), environ)
    web = Web(options.url, environ.get(AGENTEVAL_API_KEY), options.certificate)
    yield from about_collector(web, versions["otel-agenteval"], asks_judge=options.judge)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agenteval doctor",
        description="Follow a span: what records it here, where it is sent, and what has arrived at the collector.",
        epilog=_ENDS,
    )
    add = parser.add_argument
    add("--url", default=os.environ.get("AGENTEVAL_URL") or _DEFAULT_URL, help="the collector's web port")
    add("--endpoint", help="where spans go, as http://host:port (default: as `attach()` finds it)")
    add("--api-key", help="the collector's key (default: AGENTEVAL_API_KEY)")
    add("--certificate", metavar="FILE", help="the CA of the collector's certificate (PEM)")
    add(
        "--judge",
        action="store_true",
        help="have the collector ask its judge's endpoint for its models, which costs nothing",
    )
    add("--json", action="store_true", help="print JSON")
    return parser
