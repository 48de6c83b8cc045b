"""Redaction: no secret and no control sequence in what people read; linear on hostile text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.redaction import printable, redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: *** ***"),
        ("password=hunter2, host=a", "password=***, host=a"),
        ("api_key: k-123;x", "api_key: ***;x"),
        ("no mailbox ann@example.org", "no mailbox ***@example.org"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_secrets_and_addresses_are_masked(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_the_password_of_a_url_is_masked_and_its_host_stays() -> None:
    masked = redact("redis://user:hunter2@cache:6379/0 refused")
    assert "hunter2" not in masked
    assert masked.endswith("***@cache:6379/0 refused")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://u:p@h", "redis://***@h"),
        ("redis://:p@h:6379/0?db=1", "redis://***@h:6379/0?db=1"),
        ("amqp://u:p@ss@h/vhost", "amqp://***@h/vhost"),
        ("amqp://u:p/a:s/s@h/vhost", "amqp://***@h/vhost"),
        ("smtps://ann@example.org:p@ss/word@relay:465", "smtps://***@relay:465"),
        ("postgresql://u:" + "p" * 3_000 + "@h/db", "postgresql://***@h/db"),
        ("redis://u:p&token=x@h/0", "redis://***@h/0"),
        ("_redis+sentinel-x://u:p@h", "_redis+sentinel-x://***@h"),
        ("https://host/path?to=ann@example.org", "https://***@example.org"),
        ("https://host:8080/path", "https://host:8080/path"),
        ("sqlite:////var/lib/redrive.db", "sqlite:////var/lib/redrive.db"),
        ("redis://***@h", "redis://***@h"),
    ],
)
def test_whatever_a_url_holds_before_its_host_is_masked_whole(url: str, expected: str) -> None:
    assert redact(url) == expected
    assert redact(f"cannot reach '{url}' for ann@example.org") == (
        f"cannot reach '{expected}' for ***@example.org"
    )


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_no_password_of_a_url_survives(password: str) -> None:
    secret = "".join(password.split()) + "hunter2"
    assert "hunter2" not in redact(f"redis://user:{secret}@cache:6379/0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("\x1b[31mred\x1b[0m", "red"), ("a\x00b\x07c", "abc"), ("line\n\ttab", "line\n\ttab"), ("ä✓", "ä✓")],
)
def test_control_sequences_are_removed(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text())
def test_no_escape_survives(text: str) -> None:
    assert "\x1b" not in printable(text)
    assert "\x00" not in printable(text)


@pytest.mark.parametrize(
    "unit", ["a", "a@", "://", "a://", "a://b@", "a://***@", "token=", "bearer ", "\x1b[", "@", ":"]
)
def test_long_hostile_text_takes_little_time(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    began = time.perf_counter()
    redact(text)
    printable(text)
    assert time.perf_counter() - began < 2.0
