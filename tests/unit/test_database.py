from pathlib import Path

import pytest
from agenteval_collector.runtime.database import open_database
from sqlalchemy import literal, select, text
from sqlalchemy.engine.interfaces import CacheStats
from sqlalchemy.exc import SQLAlchemyError


def test_an_error_does_not_repeat_what_was_to_be_written(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "some.db", synchronous="NORMAL")
    with pytest.raises(SQLAlchemyError, match="no such table") as error, engine.begin() as connection:
        connection.execute(text("INSERT INTO absent VALUES (:content)"), {"content": "my password is hunter2"})
    engine.dispose()
    assert "hunter2" not in str(error.value)


def test_a_statement_that_was_compiled_for_one_file_is_not_compiled_for_another(tmp_path: Path) -> None:
    found = []
    for name in ("one.db", "other.db"):
        engine = open_database(tmp_path / name, synchronous="NORMAL")
        with engine.connect() as connection:
            found.append(connection.execute(select(literal(name).label("compiled_once"))).context.cache_hit)
        engine.dispose()
    assert found == [CacheStats.CACHE_MISS, CacheStats.CACHE_HIT]
