"""The sessions of PostgreSQL: their settings, and a check that the server has accepted them."""

from collections.abc import Mapping
from typing import Any, Final

from psycopg.adapt import Loader
from sqlalchemy import URL, Connection, text

from agenteval_collector.runtime.errors import PermanentError

CONNECT_WITHIN: Final = 5
"""Seconds of waiting for a connection."""
SESSION: Final = {
    # A statement that takes longer has gone wrong, or nobody waits for it any more.
    "statement_timeout": "1min",
    "idle_in_transaction_session_timeout": "30s",
    # The time that a writer waits for others in SQLite.
    "lock_timeout": "10s",
    # The server may not lose what it told a collector is committed. The collector does not start anew with the server,
    # and would go on behind the gap.
    "synchronous_commit": "on",
    # The connection with the claim on a schema is silent for hours, and must not be ended for that.
    "idle_session_timeout": "0",
    "client_encoding": "UTF8",
}
"""Settings of every session, in the form in which the server shows them. Each session has the path to its schema,
too."""
_NETWORK: Final = {
    "connect_timeout": CONNECT_WITHIN,
    # A server that disappears without closing its connections is noticed within half a minute.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def options_of(url: URL, schema: str) -> dict[str, Any]:
    """Return the options for making an engine for a schema."""
    values = url.query.get("options", ())
    options = [values] if isinstance(values, str) else [*values]
    options += (f"-c {name}={value}" for name, value in _session(schema).items())
    return {
        # The store begins its transactions itself. Look-ups by single statements need none.
        "isolation_level": "AUTOCOMMIT",
        "use_native_hstore": False,
        "hide_parameters": True,  # Errors are logged, and told to clients; what is written is recorded content.
        "connect_args": {**_NETWORK, "application_name": "otel-agenteval", "options": " ".join(options)},
    }


def check(connection: Connection, schema: str) -> None:
    """Refuse a session without the settings that it was asked for, and a database in another encoding than UTF-8.
    Raises PermanentError."""
    wanted = {**_session(schema), "server_encoding": "UTF8"}
    settings = text("SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(:names)")
    values = dict(map(tuple, connection.execute(settings, {"names": [*wanted]})))
    where = shown(connection.engine.url)
    if values["server_encoding"] != "UTF8":
        raise PermanentError(f"store.url: {where} is in {values['server_encoding']}: make a database in UTF8")
    other = [name for name, value in wanted.items() if values[name] != value]
    if other:
        raise PermanentError(
            f"store.url: {where} does not take the session's {', '.join(other)}: "
            "connect to the server itself, not to a pooler that drops them"
        )


def shown(url: URL) -> str:
    """Return where a database is, without the user, the password and the other options of the URL."""
    host = url.host or url.query.get("host") or "localhost"
    return f"{host}{f':{url.port}' if url.port else ''}/{url.database or ''}"


def _session(schema: str) -> Mapping[str, str]:
    return {**SESSION, "search_path": f'"{schema}"'}


class _Number(Loader):
    """Reads a sum or a mean as a Python number. No column holds decimal numbers."""

    def load(self, data: Any) -> int | float:
        payload = bytes(data)
        return int(payload) if payload.lstrip(b"-").isdigit() else float(payload)


def read_numbers(connection: Any, _record: object) -> None:
    """Make a new connection read sums and means as Python numbers."""
    connection.adapters.register_loader("numeric", _Number)
