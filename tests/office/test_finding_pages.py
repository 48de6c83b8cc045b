"""docs/filters.md and docs/sql.md say what is so: every field, column, kind, reason and saved question."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from redrive.core.failure import Kind
from redrive.core.verdict import Reason
from redrive.machine.statements import load_sections
from redrive.office.filters import FIELDS, FilterError, parse
from redrive.office.groups import GroupBy, GroupState
from redrive.office.sql import SAVED

DOCS = Path(__file__).parents[2] / "docs"
FILTERS = (DOCS / "filters.md").read_text("utf-8")
SQL = (DOCS / "sql.md").read_text("utf-8")
TAKEN, _, REST = FILTERS.partition("| refused |")
REFUSED, _, _ = REST.partition("\n\n")
EXAMPLES = [text for text in re.findall(r"`(-?[a-z.\"][^`]*)`", TAKEN) if ":" in text and "…" not in text]
MISTAKES = [text for row in REFUSED.splitlines() for text in re.findall(r"`([^`]+)`", row.split("|")[1])]
NOW = 1_790_000_000_000


@pytest.mark.parametrize("field", FIELDS)
def test_the_page_has_every_field(field: str) -> None:
    assert f"| `{field.removesuffix('<path>')}" in FILTERS


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_filter(example: str) -> None:
    assert parse(example, NOW).terms


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_refused(mistake: str) -> None:
    with pytest.raises(FilterError):
        parse(mistake, NOW)


def test_the_pages_have_every_kind_reason_group_and_state() -> None:
    for word in (*Kind, *Reason):
        assert f"`{word}`" in FILTERS
        assert f"`{word}`" in SQL
    assert all(f"`{by}`" in FILTERS for by in GroupBy)
    assert all(f"**{state}**" in FILTERS for state in GroupState)


@pytest.mark.parametrize("name", SAVED)
def test_the_page_has_every_saved_question_as_it_is(name: str) -> None:
    assert f"### {name}\n```sql\n{SAVED[name]}\n```" in SQL


def test_the_page_has_every_column() -> None:
    columns = re.findall(
        r"(\w+) (?:text|integer)", load_sections("redrive.office", "statements/copy.sql")["table"]
    )
    assert len(columns) == 28
    assert all(f"`{column}`" in SQL for column in columns)
