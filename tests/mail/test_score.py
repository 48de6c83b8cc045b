"""The labelled replies, and how many of them are judged as people would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from redrive.mail.judging.rules import Rules
from tests.mail.score import judge, main, read, score

LABELLED = Path(__file__).parent / "labelled_replies.jsonl"
RULES = Rules.default()

# Public collections that others measure with: a reply from there would make the score worthless.
_KEPT_APART = re.compile(
    "zone-?mta|sisimai|bounce-?handler|phpmailer-bmh|kumomta|forwardemail|postalsys|sendgrid", re.I
)


def test_the_labelled_replies_have_sources_and_are_many() -> None:
    rows = read(LABELLED)
    assert len(rows) >= 700
    assert all(row.source for row in rows)
    assert not [row.source for row in rows if _KEPT_APART.search(row.source)]
    assert len({row.reply for row in rows}) == len(rows)


def test_the_score_reaches_the_goals() -> None:
    rows = read(LABELLED)
    whole = score(rows, RULES)
    held_back = score((row for row in rows if row.held_back), RULES)
    print(f"\nall: {whole}\nheld back: {held_back}")
    assert whole.balanced_accuracy >= 0.93
    assert held_back.balanced_accuracy >= 0.93
    assert whole.given_up < 0.03
    assert held_back.given_up < 0.03
    assert whole.identity >= 0.95


def test_the_score_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(LABELLED)]) == 0
    assert "held back:" in capsys.readouterr().out
    assert main([]) == 2
    assert judge(read(LABELLED)[0], RULES).why
