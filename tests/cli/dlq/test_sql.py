"""`dlq sql`: questions written and kept, and errors with their place."""

from __future__ import annotations

import pytest

from redrive.office.sql import SAVED
from tests.cli.conftest import Shop


def test_a_select_answers_with_columns_and_rows(shop: Shop) -> None:
    shop.bury("no", "--tenant", "acme")
    text = "SELECT companyId, COUNT(*) AS letters FROM dlq GROUP BY companyId"
    document = shop.ok("dlq", "sql", text)
    assert (document["columns"], document["rows"]) == (["companyId", "letters"], [["acme", 1]])
    assert document["complete"] is True
    assert shop("dlq", "sql", text).out.split() == ["companyId", "letters", "acme", "1"]


@pytest.mark.parametrize("saved", SAVED)
def test_what_is_kept_can_be_asked_by_name(shop: Shop, saved: str) -> None:
    shop.bury()
    assert shop.ok("dlq", "sql", "--saved", saved)["columns"]


def test_an_error_has_a_caret_below_its_place(shop: Shop) -> None:
    shop.bury()
    result = shop("dlq", "sql", "SELECT 1,\n  nope FROM dlq")
    assert result.code == 2
    assert result.error.splitlines()[:2] == ["    nope FROM dlq", "    ^"]


@pytest.mark.parametrize("text", ["DELETE FROM dlq", "SELECT load_extension('x')", "PRAGMA user_version", ""])
def test_only_one_harmless_select_is_answered(shop: Shop, text: str) -> None:
    shop.bury()
    assert shop("dlq", "sql", text).code == 2


def test_one_question_is_asked_and_a_name_that_is_not_kept_lists_the_others(shop: Shop) -> None:
    shop.bury()
    assert shop("dlq", "sql").code == 2
    assert shop("dlq", "sql", "SELECT 1", "--saved", "oldest").code == 2
    unknown = shop("dlq", "sql", "--saved", "youngest")
    assert unknown.code == 4
    assert "oldest" in unknown.error


def test_payloads_are_masked_unless_revealed(shop: Shop) -> None:
    shop.send({"permanent": "no", "password": "hunter2"})
    shop.work()
    text = "SELECT originalData FROM dlq"
    for flags in ((), ("--json",)):
        assert "hunter2" not in shop("dlq", "sql", text, *flags).out
    assert "hunter2" in shop("dlq", "sql", text, "--reveal").out
    assert shop.ok("audit", "--verb", "reveal")["rows"][0]["subject"] == {"sql": text}
