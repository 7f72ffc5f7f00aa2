"""Bring a database to the tables of this version."""

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.database import damage_in, damage_told
from agenteval_collector.runtime.errors import PermanentError
from agenteval_collector.stores.engines.ports import Database


def newest_revision() -> str:
    """Return the revision of the tables of this version."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def migrate(database: Database, engine: Engine) -> None:
    """Run every migration that the database has not seen: all of them or none.

    Raises PermanentError if the file is no database of ours, or one of another version.
    """
    # At INFO, Alembic logs each step of every start. What matters is raised.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = _config()
    try:
        with database.migrating(engine) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except (CommandError, SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:
        if damage := damage_in(error):
            raise PermanentError(damage_told(database.name, damage)) from error
        raise PermanentError(
            f"{database.name} cannot be used: {error}; was it written by another version? "
            "Give another --data-dir, or install that version"
        ) from error


def _config() -> Config:
    config = Config()
    # The configuration takes a single % in a value for the beginning of a placeholder.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
