"""Failures: always a reason, always bounded, always storable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.failure import CODE_LENGTH, REASON_LENGTH, TRACEBACK_LENGTH, Failure, Kind, clip, clip_front


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_a_blank_reason_becomes_the_kind(kind: Kind, blank: str) -> None:
    assert Failure(0, 1, kind, blank).reason == kind.value


def test_a_reason_loses_its_margins() -> None:
    assert Failure(0, 1, Kind.TEMPORARY, "  no route \n").reason == "no route"


def test_long_texts_are_clipped_where_they_matter_least() -> None:
    traceback = "begin" + "x" * 5_000 + "end"
    found = Failure(0, 1, Kind.TEMPORARY, "why" + "y" * 5_000, "c" * 500, traceback=traceback)
    assert (len(found.reason), found.reason[:3]) == (REASON_LENGTH, "why")
    assert found.code == "c" * CODE_LENGTH
    assert found.traceback is not None
    assert (len(found.traceback), found.traceback[-3:]) == (TRACEBACK_LENGTH, "end")


def test_what_is_not_given_stays_away() -> None:
    found = Failure(0, 1, Kind.TEMPORARY, "why")
    assert (found.code, found.scope, found.traceback, found.fingerprint) == (None, None, None, "")


@given(st.text(st.characters(), max_size=3_000), st.integers(1, 2_048))
def test_clipped_text_is_bounded_in_bytes_and_can_be_stored(text: str, length: int) -> None:
    for clipped in (clip(text, length), clip_front(text, length)):
        assert len(clipped.encode("utf-8")) <= length


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=100))
def test_short_text_stays_as_it_is(text: str) -> None:
    assert clip(text, 400) == text
    assert clip_front(text, 400) == text


@given(st.text(st.characters()), st.text(st.characters()), st.text(st.characters()))
def test_no_failure_holds_what_cannot_be_encoded(reason: str, code: str, traceback: str) -> None:
    found = Failure(0, 1, Kind.TEMPORARY, reason, code, traceback=traceback)
    assert found.reason.strip()
    for text in (found.reason, found.code, found.traceback):
        assert text is not None
        text.encode("utf-8")


def test_what_some_programs_take_for_the_end_of_a_text_is_replaced() -> None:
    assert clip("a\0b", 400) == "a?b"
    assert clip_front("a\0b", 400) == "a?b"
