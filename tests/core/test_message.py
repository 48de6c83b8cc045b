"""Names, dedupe keys and headers that are accepted and refused, and when a message expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from redrive.core.errors import Conflict, InvalidMessage, Later
from redrive.core.message import check_dedupe, check_headers, check_queue, check_tenant, expiry

GOOD_NAMES = ["a", "orders", "Orders.v2", "a_b-c.d", "0", "x" * 128]
BAD_NAMES = ["", "x" * 129, "a b", "a/b", "a{b}", "a*", "ä", "a\n", "a\x00", "a\ud800", "٣", "a,b", "a'b"]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_name_is_a_name(name: str) -> None:
    assert check_queue(name) == name
    assert check_tenant(name) == name


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessage, match="queue"):
        check_queue(name)
    with pytest.raises(InvalidMessage, match="tenant"):
        check_tenant(name)


def test_only_a_queue_may_hold_a_colon() -> None:
    assert check_queue("mail:send") == "mail:send"
    with pytest.raises(InvalidMessage):
        check_tenant("mail:send")


@pytest.mark.parametrize("key", ["k", "order 7", "ä✓", "{a}*", "x" * 512])
def test_a_dedupe_key_is_any_plain_text(key: str) -> None:
    assert check_dedupe(key) == key


@pytest.mark.parametrize("key", ["", "x" * 513, "a\nb", "a\x00", "a\x7f", "a\ud800"])
def test_a_dedupe_key_without_sense_is_refused(key: str) -> None:
    with pytest.raises(InvalidMessage, match="dedupe"):
        check_dedupe(key)


@pytest.mark.parametrize("headers", [{}, {"Trace": "1"}, {"a": ""}, {"ä": "✓"}, {"n": "v" * 16_383}])
def test_plain_headers_are_accepted(headers: dict[str, str]) -> None:
    assert check_headers(headers) == headers


@pytest.mark.parametrize(
    "headers", [{"": "1"}, {"a\r": "1"}, {"a": "1\n"}, {"a": "\x00"}, {"a": "\udc00"}, {"n": "v" * 16_384}]
)
def test_headers_with_control_characters_or_without_end_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidMessage, match="header"):
        check_headers(headers)


@pytest.mark.parametrize(
    ("enqueued_at", "due_at", "ttl_s", "expected"),
    [(1_000, 1_000, 2.0, 3_000), (1_000, 5_000, 2.0, 7_000), (5_000, 1_000, 2.0, 7_000), (0, 0, 0.0015, 2)],
)
def test_the_time_to_live_counts_from_the_first_chance(
    enqueued_at: int, due_at: int, ttl_s: float, expected: int
) -> None:
    assert expiry(enqueued_at, due_at, ttl_s) == expected


def test_an_error_of_a_batch_names_the_index() -> None:
    assert "message 3 of the batch" in str(InvalidMessage("too large", 3))
    assert "message 0 of the batch" in str(Conflict("k", "id-1", 0))
    assert "id-1" in str(Conflict("k", "id-1"))
    assert "message id id-1 belongs to a message of another tenant" in str(
        Conflict(None, "id-1", differs="tenant")
    )


def test_later_refuses_a_datetime_without_a_zone() -> None:
    instant = datetime(2025, 1, 16, tzinfo=UTC)
    assert Later(instant).until == instant
    assert Later(timedelta(seconds=5)).until == timedelta(seconds=5)
    with pytest.raises(ValueError, match="aware"):
        Later(instant.replace(tzinfo=None))
