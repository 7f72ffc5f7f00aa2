"""The sessions of PostgreSQL: their settings, and whether the server has taken them."""

from collections.abc import Mapping
from typing import Any, Final

from psycopg.adapt import Loader
from sqlalchemy import URL, Connection, text

from agenteval_collector.runtime.errors import PermanentError

CONNECT_WITHIN: Final = 5
"""Seconds."""
SESSION: Final = {
    # A statement that takes so long has gone wrong, or has nobody any more who waits for it.
    "statement_timeout": "1min",
    "idle_in_transaction_session_timeout": "30s",
    # As long as a writer waits for others in SQLite.
    "lock_timeout": "10s",
    # What a collector was told is committed may not be lost with the server: it does not start anew with it, and would
    # go on behind the gap.
    "synchronous_commit": "on",
    # Hours of silence are no reason to lose the claim on a schema.
    "idle_session_timeout": "0",
    "client_encoding": "UTF8",
}
"""Settings of every session, beside the path to its schema, as the server shows them."""
_NETWORK: Final = {
    "connect_timeout": CONNECT_WITHIN,
    # A server that is gone without a word is noticed within half a minute.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def options_of(url: URL, schema: str) -> dict[str, Any]:
    """Return what an engine for a schema is made with."""
    given = url.query.get("options", ())
    options = [given] if isinstance(given, str) else [*given]
    options += (f"-c {name}={value}" for name, value in _session(schema).items())
    return {
        # Transactions begin where the store begins them; what reads by single statements needs none.
        "isolation_level": "AUTOCOMMIT",
        "use_native_hstore": False,
        "hide_parameters": True,  # Errors are logged, and told to clients; what is written is recorded content.
        "connect_args": {**_NETWORK, "application_name": "otel-agenteval", "options": " ".join(options)},
    }


def check(connection: Connection, schema: str) -> None:
    """Refuse a session that is not as it was asked for, and a database with other characters. Raises PermanentError."""
    asked = {**_session(schema), "server_encoding": "UTF8"}
    settings = text("SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(:names)")
    found = dict(map(tuple, connection.execute(settings, {"names": [*asked]})))
    where = shown(connection.engine.url)
    if found["server_encoding"] != "UTF8":
        raise PermanentError(f"store.url: {where} is in {found['server_encoding']}: make a database in UTF8")
    other = [name for name, value in asked.items() if found[name] != value]
    if other:
        raise PermanentError(
            f"store.url: {where} does not take the session's {', '.join(other)}: "
            "connect to the server itself, not to a pooler that drops them"
        )


def shown(url: URL) -> str:
    """Return where a database is, without the user, the password and what else is asked for."""
    host = url.host or url.query.get("host") or "localhost"
    return f"{host}{f':{url.port}' if url.port else ''}/{url.database or ''}"


def _session(schema: str) -> Mapping[str, str]:
    return {**SESSION, "search_path": f'"{schema}"'}


class _Number(Loader):
    """Reads a sum or a mean as Python's own number: no column is a decimal one."""

    def load(self, data: Any) -> int | float:
        told = bytes(data)
        return int(told) if told.lstrip(b"-").isdigit() else float(told)


def read_numbers(connection: Any, _record: object) -> None:
    """Have a new connection read sums as numbers."""
    connection.adapters.register_loader("numeric", _Number)
