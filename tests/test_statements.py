"""How a file of statements is cut into its sections."""

from __future__ import annotations

import pytest

from redrive.machine.statements import sections


def test_a_file_is_cut_at_its_names_and_loses_its_comments() -> None:
    text = "-- The head.\n\n-- name: first\nselect 1\n-- why\nfrom x\n\n-- name: second_one\nselect 2\n"
    assert sections(text, "x.sql") == {"first": "select 1\nfrom x", "second_one": "select 2"}


def test_a_name_that_is_given_twice_is_refused_with_its_file() -> None:
    with pytest.raises(ValueError, match=r"x\.sql names a section twice"):
        sections("-- name: one\nselect 1\n-- name: one\nselect 2\n", "x.sql")


def test_a_part_stands_wherever_a_later_statement_names_it() -> None:
    text = (
        "-- part: columns\na,\n  b\n\n-- name: one\nselect {columns} from x\n\n-- name: two\nselect {order}\n"
    )
    assert sections(text, "x.sql") == {"one": "select a,\n  b from x", "two": "select {order}"}
