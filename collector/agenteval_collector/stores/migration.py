"""Brings a database file to the tables of this version."""

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Engine

from agenteval_collector.runtime.database import DATABASE_ERRORS, damage_in, damage_told
from agenteval_collector.runtime.errors import PermanentError


def newest_revision() -> str:
    """Return the revision of the tables of this version."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def migrate(engine: Engine) -> None:
    """Run every migration that the database has not seen, all of them or none.

    Raises PermanentError where the file is no database of ours, or one of another version.
    """
    # Alembic reports each step of every start at INFO; what matters of it is raised.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = _config()
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("BEGIN")  # The driver begins none for a CREATE: each would be kept by itself.
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except (CommandError, *DATABASE_ERRORS) as error:
        if damage := damage_in(error):
            raise PermanentError(damage_told(str(engine.url.database), damage)) from error
        raise PermanentError(
            f"{engine.url.database} cannot be used: {error}; was it written by another version? "
            "Give another --data-dir, or install that version"
        ) from error


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
