"""Addresses: what is read, what is refused, how it is written; linear on hostile text."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from email.headerregistry import AddressHeader
from email.policy import default

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.mail.smtp.envelope import Envelope
from redrive.mail.writing.addresses import Address, InvalidAddress, parse
from tests.mail.mails import squeezed

_VISIBLE = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
_CONTROL = st.sampled_from([*map(chr, range(32)), "\x7f", "\x85", "\x9f", "\u2028", "\u2029", "\ud800"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ann@example.org", Address("", "ann", "example.org")),
        ("<ann@example.org>", Address("", "ann", "example.org")),
        ("Ann <ann@example.org>", Address("Ann", "ann", "example.org")),
        ("  Ann   Lee  <ann@EXAMPLE.org> ", Address("Ann   Lee", "ann", "example.org")),
        ('"Lee, Ann" <ann@example.org>', Address("Lee, Ann", "ann", "example.org")),
        (r'"a \"b\" \\ <c>" <ann@example.org>', Address(r'a "b" \ <c>', "ann", "example.org")),
        ("J. Doe <a@b>", Address("J. Doe", "a", "b")),
        ("o'neil+tag/x=1@example.org", Address("", "o'neil+tag/x=1", "example.org")),
        ('"ann"@example.org', Address("", "ann", "example.org")),
        ('"a@b,c"@example.org', Address("", "a@b,c", "example.org")),
        ("Jörg 😀 <j@münchen.example>", Address("Jörg 😀", "j", "xn--mnchen-3ya.example")),
        ("用户@例子.广告", Address("", "用户", "xn--fsqu00a.xn--4rr70v")),
        ("a@xn--mnchen-3ya.example", Address("", "a", "xn--mnchen-3ya.example")),
    ],
)
def test_an_address_is_read(text: str, expected: Address) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an address"),
        ("ann", "not an address"),
        ("@example.org", "not an address"),
        ("ann@", "not an address"),
        ("Ann <ann@example.org", "dot-separated"),
        ("ann@example.org>", "without <"),
        ("a@b.org, c@d.org", "dot-separated"),
        ("a@b.org, Carol <c@d.org>", "as a list"),
        ("Lee, Ann <a@b.org>", "double quotes"),
        ("Ann (home) <a@b.org>", "double quotes"),
        ('"Ann" Lee <a@b.org>', "double quotes"),
        ("friends: a@b.org;", "dot-separated"),
        ("<@relay.org:a@b.org>", "dot-separated"),
        ("a(comment)@b.org", "dot-separated"),
        ("a..b@c.org", "dot-separated"),
        (".a@c.org", "dot-separated"),
        ("a b@c.org", "dot-separated"),
        ('"a b"@c.org', "a space"),
        ('"a<b"@c.org', "< or >"),
        ('""@c.org', "empty"),
        ("a\u202eb@c.org", "invisible"),
        ("a\u3000b@c.org", "a space"),
        ("a@b_c.org", "letters, digits"),
        ("a@-b.org", "letters, digits"),
        ("a@b-.org", "letters, digits"),
        ("a@b..org", "letters, digits"),
        ("a@b.org.", "letters, digits"),
        ("a@[127.0.0.1]", "letters, digits"),
        ("a@127.0.0.1", "IP address"),
        ("a@ex\uff41mple.org", "A-label"),
        ("a@b。org", "A-label"),
        ("a@ü..org", "A-label"),
        ("x" * 65 + "@b.org", "64 bytes"),
        ("a@" + "b." * 130 + "org", "255 bytes"),
        ("a" * 60 + "@" + ("b" * 60 + ".") * 3 + "b" * 20, "254 bytes"),
        ("a@" + "b" * 64 + ".org", "letters, digits"),
        ("n" * 257 + " <a@b.org>", "256 characters"),
        ("n" * 1001, "1000 characters"),
    ],
)
def test_what_is_not_one_plain_address_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidAddress, match=re.escape(why)):
        parse(text)


@given(st.text(_VISIBLE, max_size=20), _CONTROL, st.text(_VISIBLE, max_size=20), st.integers(0, 2))
def test_no_control_character_passes_anywhere(before: str, control: str, after: str, place: int) -> None:
    spoiled = before + control + after
    texts = (f'"{spoiled}" <a@b.org>', f"a{spoiled}@b.org", f"a@b{spoiled}.org")
    with pytest.raises(InvalidAddress):
        parse(texts[place])


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse(text)
    except InvalidAddress:
        return
    assert parse(address.envelope) == Address("", address.local, address.domain)


_NAMES = st.text(_VISIBLE, max_size=60).map(lambda name: name.strip(" "))
_LOCALS = st.from_regex(r"[a-z0-9+_-]{1,20}(\.[a-z0-9]{1,8}){0,3}", fullmatch=True)


@given(_NAMES, _LOCALS)
def test_a_written_address_is_read_as_the_same_by_the_standard_package(name: str, local: str) -> None:
    written = Address(name, local, "example.org").header
    assert written.isascii()
    header = default.header_factory("To", written)
    assert isinstance(header, AddressHeader)
    (read,) = header.addresses
    assert (squeezed(read.display_name), read.username, read.domain) == (squeezed(name), local, "example.org")


@given(st.text(_VISIBLE, min_size=1, max_size=30).filter(lambda name: name.strip(" ")))
def test_every_name_can_be_given_in_double_quotes(name: str) -> None:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    assert parse(f'"{escaped}" <a@b.org>').name == name.strip(" ")


@given(
    st.text(_VISIBLE, min_size=1, max_size=20),
    st.sampled_from(["b.org", "münchen.example", "straße.example"]),
)
def test_every_accepted_address_fits_an_envelope(local: str, domain: str) -> None:
    escaped = local.replace("\\", "\\\\").replace('"', '\\"')
    try:
        address = parse(f'"{escaped}"@{domain}')
    except InvalidAddress:
        return
    Envelope(address.envelope, (address.envelope,), b"", smtputf8=address.smtputf8)


def test_only_what_ascii_cannot_say_needs_smtputf8() -> None:
    assert not parse("Jörg <j@münchen.example>").smtputf8
    assert parse("jörg@example.org").smtputf8


def test_a_domain_that_the_codec_would_turn_into_another_stays_as_it_is() -> None:
    address = parse("a@straße.example")
    assert address.domain == "straße.example"
    assert address.smtputf8


@pytest.mark.parametrize("unit", ["a", ".", "@", '"', "\\", "<", ">", "a.", "a@", '"\\', "ü", "=?", "-"])
@pytest.mark.parametrize("shape", ["{}", "{}@b.org", "a@{}", "{} <a@b.org>", '"{}" <a@b.org>'])
def test_a_megabyte_of_hostile_text_takes_no_time(unit: str, shape: str) -> None:
    for length in (300, 900, 1_000_000):
        began = time.thread_time()
        with suppress(InvalidAddress):
            parse(shape.format(unit * (length // len(unit))))
        assert time.thread_time() - began < 0.5


def test_a_refusal_never_repeats_the_text() -> None:
    with pytest.raises(InvalidAddress) as caught:
        parse("secret token <secret token@b.org>")
    assert "secret" not in str(caught.value)
