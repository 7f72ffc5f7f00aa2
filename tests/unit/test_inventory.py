"""Every column of the store is in the inventory, with what it holds and what takes it away."""

import pytest
from agenteval_collector.stores.erasing import OF_SESSIONS, OF_TRACES
from agenteval_collector.stores.inventory import INVENTORY, RULES, Erased, Holds
from agenteval_collector.stores.schema import data_columns, metadata
from sqlalchemy import Table, Text

TABLES = metadata.sorted_tables


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_column_has_its_row_in_the_inventory(table: Table) -> None:
    assert INVENTORY[table.name].columns().keys() == {column.name for column in data_columns(table)}


def test_the_inventory_has_no_table_that_is_not_there() -> None:
    assert INVENTORY.keys() == {table.name for table in TABLES}


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_what_erases_a_table_finds_its_rows(table: Table) -> None:
    erased, kinds = INVENTORY[table.name].erased, INVENTORY[table.name].columns()
    for way in erased:
        if way in (Erased.TRACE, Erased.SESSION, Erased.SUBJECT):
            assert kinds[way] is Holds.IDS
    assert (table in [of for of, _ in OF_TRACES]) == bool({Erased.TRACE, Erased.SUBJECT} & {*erased})
    assert (table in [of for of, _ in OF_SESSIONS]) == bool({Erased.SESSION, Erased.SUBJECT} & {*erased})
    # What no deletion takes away holds nothing of a trace.
    if Erased.NOTHING in erased:
        assert {*kinds.values()} <= {Holds.OURS, Holds.DIGESTS}


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_words_have_an_end_and_are_long_texts(table: Table) -> None:
    row = INVENTORY[table.name]
    for column in row.words.split():
        assert isinstance(table.c[column].type, Text) or table.c[column].type.python_type is bytes
    assert row.words_end is None or row.words
    if row.words and row.words_end is None:
        # `forget_content` finds them by the trace or the subject.
        assert {Erased.TRACE, Erased.SUBJECT} & {*row.erased}


def test_every_kind_has_its_rule() -> None:
    assert RULES.keys() == {*Holds}
