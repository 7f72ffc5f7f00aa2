from pathlib import Path

import pytest
from agenteval_collector.runtime.database import open_database
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError


def test_an_error_does_not_repeat_what_was_to_be_written(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "some.db", synchronous="NORMAL")
    with pytest.raises(SQLAlchemyError, match="no such table") as error, engine.begin() as connection:
        connection.execute(text("INSERT INTO absent VALUES (:content)"), {"content": "my password is hunter2"})
    engine.dispose()
    assert "hunter2" not in str(error.value)
