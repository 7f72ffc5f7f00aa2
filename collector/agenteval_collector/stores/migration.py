"""Brings a database file to the tables of this version."""

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.errors import PermanentError


def migrate(engine: Engine) -> None:
    """Run every migration that the database has not seen.

    Raises PermanentError where the file is no database of ours, or one of another version.
    """
    # Alembic reports each step of every start at INFO; what matters of it is raised.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except (CommandError, SQLAlchemyError) as error:
        raise PermanentError(
            f"{engine.url.database} cannot be used: {error}; was it written by another version? "
            "Give another --data-dir, or install that version"
        ) from error
