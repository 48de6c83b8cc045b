"""Redaction: no secret and no control sequence in what people read; linear on hostile text."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.redaction import mask, printable, redact


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
    ("text", "expected"),
    [
        ("RCPT TO:<ana@[1.2.3.4]> refused", "RCPT TO:<***@[1.2.3.4]> refused"),
        ("ana@[IPv6:2001:db8::1]", "***@[IPv6:2001:db8::1]"),
        ("ana@übung.example, bob@x.org", "***@übung.example, ***@x.org"),
        ("анна@пример.рф", "***@пример.рф"),
        ("ana@例え.jp ana@💌.la", "***@例え.jp ***@💌.la"),
        ("josé@x.org", "***@x.org"),
        ("smtp://ana:pass@[::1]:25", "smtp://***@[::1]:25"),
        ("redis://u:p@übung.example/0", "redis://***@übung.example/0"),
        ('no mailbox "a b"@x.org here', "no mailbox ***@x.org here"),
        ('to="ana"@x.org', "***@x.org"),
        ('<"a b"@[1.2.3.4]> and "josé @ home"@übung.example', "<***@[1.2.3.4]> and ***@übung.example"),
        (r'"a\"b c\\"@x.org', "***@x.org"),
        (r'"\"ana\""@x.org', "***@x.org"),
        ('5" too wide: "a b"@x.org', '5" too wide: ***@x.org'),
        ("'\"a b\"@x.org'", "'***@x.org'"),
        ('""a b"@x.org"', '"***@x.org"'),
        (r'{"to": "\"a b\"@x.org"}', '{"to": "***@x.org"}'),
        (r"{\"to\": \"\\\"a b\\\"@x.org\"}", r"{\"to\": \"***@x.org\"}"),
    ],
)
def test_every_form_of_an_address_loses_its_local_part(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"message": "Failed (x)!", "@timestamp": 1, "": "", "@version": "1"}',
        r"{\"user\": \"@bob\", \"@type\": \"Person\"}",
        '[{"a": "b."}, {"@id": "c"}]',
        '"Hi!" "@bob"',
        'name"@x',
        '5"@home',
        '"an open quote\nand a handle "@bob',
        "a @ b, @[1], x@, @ü",
    ],
)
def test_a_handle_in_quotes_is_no_address(text: str) -> None:
    assert redact(text) == text


HOSTILE = (
    *("a", "a@", "ü@", "a@[", "://", "a://", "a://b@", "a://***@", "token=", "bearer ", "\x1b[", "@", ":"),
    *("4", "4 ", "4-", "eyJ", "eyJa.", "eyJ" + "a" * 20 + "-", "rdk_", "-----BEGIN ", 'token"="'),
    *(
        '"',
        '"a',
        ' "a',
        '"a"',
        '"@',
        ' "@x',
        '"a"@',
        ' "a b"@x',
        '"\\',
        '\\"',
        ' \\"',
        ' \\"a',
        '\\"@x',
        "\\",
    ),
    *(' "\\"a', '"\\"@x', '\\"a\\"@x', ' \\\\"a\\"@x', ' "a\n'),
)


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("before", ["", '"', '\\"'])
def test_eight_times_the_hostile_text_takes_about_eight_times_as_long(before: str, unit: str) -> None:
    end = '"@x'  # without it, what looks for quotes is not tried
    long = before + unit * (100_000 // len(unit)) + end
    short = before + unit * (12_500 // len(unit)) + end
    assert _fastest_s(long) < 24 * _fastest_s(short) + 0.005


def _fastest_s(text: str) -> float:
    def once_s() -> float:
        began_s = time.thread_time()
        redact(text)
        printable(text)
        return time.thread_time() - began_s

    return min(once_s() for _ in range(3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"password": "hunter2", "n": 1}', '{"password": "***", "n": 1}'),
        ("paid with 4111 1111 1111 1111 today", "paid with ***1111 today"),
        ("paid with 4111-1111-1111-1112 today", "paid with 4111-1111-1111-1112 today"),
        ("order 1700000000000 of 2026-11-15", "order 1700000000000 of 2026-11-15"),
        ("key rdk_0123456789ab_" + "x" * 43, "key ***"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "jwt ***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n", "***"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_what_does_not_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


SECRET_FIELDS = (
    *("password", "userPassword", "PASSWD", "api_key", "X-Api-Key", "accessToken", "client-secret"),
    *("Authorization", "card", "card_number", "cvv", "set-cookie", "pin", "tax_id", "taxId"),
)


@pytest.mark.parametrize("field", SECRET_FIELDS)
@pytest.mark.parametrize("value", ["hunter2", 4242, ["hunter2"], {"inner": "hunter2"}, True])
def test_a_secret_field_is_masked_whole_wherever_it_stands(field: str, value: object) -> None:
    document = {"order": {"items": [{field: value, "note": "kept"}]}}
    assert mask(document, ["tax-id"]) == {"order": {"items": [{field: "***", "note": "kept"}]}}


@pytest.mark.parametrize(
    "document",
    [
        {"author": "Ann", "shipping": 3, "passenger": "Bo", "company": "X", "discard": True, "span": 1},
        {
            "amount": 12.5,
            "huge": 10**5_000,
            "at": 1_700_000_000_000,
            "ids": [1, 2],
            "none": None,
            "password": None,
        },
        [],
        "plain",
        7,
        None,
    ],
)
def test_a_harmless_document_stays_as_it_is(document: object) -> None:
    assert mask(document) == document


def test_names_that_hold_addresses_are_masked_and_none_is_lost() -> None:
    assert mask({"ann@example.org": 1, "bob@example.org": 2}) == {
        "***@example.org": 1,
        "***@example.org (2)": 2,
    }


def test_a_card_number_is_masked_as_text_and_as_a_number() -> None:
    assert mask({"a": "5555555555554444", "b": 5555555555554444, "c": 5555555555554445}) == {
        "a": "***4444",
        "b": "***",
        "c": 5555555555554445,
    }


def test_a_document_of_any_depth_is_masked_without_an_error() -> None:
    document: Any = "hunter2 at the bottom"
    for _ in range(5_000):
        document = [document]
    assert "hunter2" not in json.dumps(mask(document))


_plain = st.text("abcdefgh 0123", max_size=8)
_documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@given(_documents)
def test_masking_a_masked_document_changes_nothing_more(document: object) -> None:
    masked = mask(document)
    assert mask(masked) == masked


@given(_documents)
def test_the_given_document_is_never_changed(document: object) -> None:
    before = copy.deepcopy(document)
    mask(document)
    assert document == before


@given(_documents, st.sampled_from(SECRET_FIELDS[:-2]), _plain, _plain)
def test_no_value_of_a_secret_field_survives(document: object, field: str, before: str, after: str) -> None:
    secret = f"{before}hunter2{after}"
    holder = {"first": document, "list": [{field: secret}, {"deep": {field: [secret, {"x": secret}]}}]}
    assert "hunter2" not in json.dumps(mask(holder))


@given(_plain, _plain)
def test_the_local_part_of_an_address_never_survives(before: str, after: str) -> None:
    masked = mask({"to": f"{before} secretname@example.org {after}"})
    assert "secretname" not in masked["to"]
    assert "@example.org" in masked["to"]
