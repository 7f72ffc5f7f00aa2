"""Connections to the store's file. Whatever the database refuses is raised as Unavailable."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from agenteval_collector.runtime.errors import Unavailable


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """For look-ups; each statement sees the store at its own moment."""
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise Unavailable(f"the store could not be read: {error}") from error


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """For look-ups that make one document: all statements see the store at the same moment."""
    with reading(engine) as connection:
        connection.exec_driver_sql("BEGIN")
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction, which nobody writes into: it is kept as a whole or not at all."""
    try:
        with engine.begin() as connection:
            # A write that starts as a read would fail, not wait, when another one gets in between.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
    except SQLAlchemyError as error:
        raise Unavailable(f"the store could not be written: {error}") from error
