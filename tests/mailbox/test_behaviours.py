"""The table of local parts: each row on its own, and the page that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from redrive.mailbox.behaviours import ROWS, Delay, Largest, Limit, Refuse, Row, behaviour, markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "mailbox.md"


def action(address: str) -> object:
    found = behaviour(address)
    return None if found is None else found.action


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.form)
def test_the_example_of_a_row_is_matched_by_that_row_alone(row: Row) -> None:
    assert [each for each in ROWS if re.fullmatch(each.pattern, row.example)] == [row]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.form)
def test_every_row_but_ok_does_something_at_the_stage_it_names(row: Row) -> None:
    found = behaviour(f"{row.example}@example.org")
    stage = None if found is None else found.stage
    assert stage == (None if row.form == "ok" else row.stage)


@pytest.mark.parametrize(
    "address", ["FULL@example.org", "full+order7@example.org", "Full+A+B@x", "full@[::1]"]
)
def test_case_tags_and_domains_do_not_matter(address: str) -> None:
    assert behaviour(address) == behaviour("full@example.org") is not None


@pytest.mark.parametrize(
    "local",
    ["someone", "reply", "reply-250", "reply-650", "reply-45", "reply-450-2.0.0", "replyy-450", "reply-٤50",
     "slow-3", "slow-3h", "toobig-x", "fail-then-ok", "rate-0", "rate-5-per-day", "", "+tag", "drop"],
)  # fmt: skip
def test_what_no_row_matches_is_accepted(local: str) -> None:
    assert behaviour(f"{local}@example.org") is None


@pytest.mark.parametrize(
    ("local", "text"),
    [
        ("reply-450", "450 simulated reply"),
        ("reply-451-4.7.1", "451 4.7.1 simulated reply"),
        ("reply-550-4.7.1", "550 4.7.1 simulated reply"),
        ("full", "452 4.2.2 mailbox full"),
    ],
)
def test_a_reply_says_the_code_that_was_asked_for(local: str, text: str) -> None:
    found = action(f"{local}@example.org")
    assert isinstance(found, Refuse)
    assert found.reply.text == text


def test_delays_sizes_and_rates_have_units() -> None:
    assert action("slow-200ms@x") == Delay(0.2)
    assert action("slow-2min@x") == Delay(120.0)
    assert action("toobig-10@x") == Largest(10)
    assert action("toobig-2m@x") == Largest(2 * 1024 * 1024)
    assert action("rate-5-per-min@x") == Limit(5, 60.0, closing=False)
    assert action("rate-5-per-s-421@x") == Limit(5, 1.0, closing=True)
    assert action("rate-0-per-s@x") == Limit(1, 1.0, closing=False)


def test_a_reply_of_several_lines_repeats_its_code() -> None:
    found = action("multiline-550-5.1.1@x")
    assert isinstance(found, Refuse)
    assert re.fullmatch(rb"(550-5\.1\.1 [^\r\n]+\r\n){2}550 5\.1\.1 [^\r\n]+\r\n", found.reply.encoded)


def test_the_page_shows_the_table_as_it_is() -> None:
    assert f"<!-- generated: mailbox addresses -->\n{markdown_table()}\n<!-- end -->" in PAGE.read_text(
        "utf-8"
    )
