"""`redrive send`: what is stored, what is answered, what is refused."""

from __future__ import annotations

import io
from datetime import datetime

import pytest

from tests.cli.conftest import Shop


def test_send_prints_the_id_alone(shop: Shop) -> None:
    result = shop("send", "orders", '{"order": 7}')
    assert result.code == 0
    message_id = result.out.strip()
    assert shop.ok("show", message_id, "--body")["originalData"] == {"order": 7}


@pytest.mark.parametrize(("written", "seconds"), [("10", 10), ("0.5", 0.5), ("90s", 90), ("2h30m", 9000)])
def test_a_delay_without_a_unit_is_in_seconds(shop: Shop, written: str, seconds: float) -> None:
    shown = shop.ok("show", shop.send(1, "--delay", written))
    due, given = (datetime.fromisoformat(shown[name]) for name in ("dueAt", "enqueuedAt"))
    assert (due - given).total_seconds() == seconds


@pytest.mark.parametrize("flag", ["--delay", "--ttl"])
def test_what_is_no_length_of_time_is_refused_with_the_spelling(shop: Shop, flag: str) -> None:
    result = shop("send", "orders", "1", flag, "soon")
    assert result.code == 2
    assert f"{flag} 'soon'" in result.error
    assert "2h30m" in result.error


@pytest.mark.parametrize("written", ["-5", "-2h", "1e400", "99999999999999", "4000d"])
def test_a_length_of_time_that_cannot_be_meant_is_refused_and_nothing_sent(shop: Shop, written: str) -> None:
    result = shop("send", "orders", "1", "--delay", written)
    assert (result.code, result.out) == (2, "")
    assert "--delay" in result.error


def test_every_flag_reaches_the_message(shop: Shop) -> None:
    message_id = shop.send(
        1,
        "--tenant",
        "acme",
        "--dedupe",
        "k",
        "--delay",
        "1h",
        "--ttl",
        "10m",
        "--track",
        "bulk",
        "--header",
        "a=b=c",
    )
    shown = shop.ok("show", message_id)
    assert (shown["companyId"], shown["dedupe"], shown["track"]) == ("acme", "k", "bulk")
    assert shown["headers"] == {"a": "b=c"}
    assert shown["dueAt"] > shown["enqueuedAt"]
    assert "delayed" in shown["why"]


def test_a_dash_reads_standard_input(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1, 2]"))
    message_id = shop.ok("send", "orders", "-")["jobId"]
    assert shop.ok("show", message_id, "--body")["originalData"] == [1, 2]


def test_a_duplicate_names_the_first_and_adds_nothing(shop: Shop) -> None:
    first = shop.send(1, "--dedupe", "k")
    again = shop("send", "orders", "1", "--dedupe", "k")
    assert (again.code, again.out.strip()) == (0, first)
    assert "duplicate" in again.error
    assert shop.ok("send", "orders", "1", "--dedupe", "k")["duplicateOf"] == first
    assert shop.ok("status")["queues"][0]["pending"] == 1


def test_a_conflict_fails_with_the_first_id(shop: Shop) -> None:
    first = shop.send(1, "--dedupe", "k")
    result = shop("send", "orders", "2", "--dedupe", "k")
    assert (result.code, result.out) == (1, "")
    assert first in result.error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders", "{broken"), "not JSON"),
        (("orders", "[" * 100_000), "nested too deeply"),
        (("orders", '"\\ud800"'), "not JSON"),
        (("or ders", "1"), "is not a name"),
        (("orders", "1", "--tenant", "a*b"), "is not a name"),
        (("orders", "1", "--header", "x"), "name=value"),
        (("orders", "1", "--track", "fast"), "is not known"),
        (("orders", "1", "--delay", "soon"), "--delay"),
        (("orders", "1", "--at", "2030-01-01T00:00:00"), "time zone"),
        (("orders", "1", "--at", "2030-01-01T00:00:00Z", "--delay", "1s"), "not both"),
        (("orders", "1", "--ttl", "0s"), "more than 0"),
        (("orders",), "JSON"),
    ],
)
def test_what_cannot_be_sent_is_a_usage_error(shop: Shop, arguments: tuple[str, ...], said: str) -> None:
    result = shop("send", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.error
    assert "Traceback" not in result.error
