"""Relay URLs: what they mean, what is refused, and that no password is ever shown."""

from __future__ import annotations

import logging
import ssl

import pytest

from redrive.core.errors import ConfigurationError
from redrive.mail.smtp.relay import Relay, Tls


@pytest.mark.parametrize(
    ("url", "host", "port", "tls"),
    [
        ("smtp://mail.example.org", "mail.example.org", 25, Tls.STARTTLS),
        ("smtp://127.0.0.1:2525", "127.0.0.1", 2525, Tls.NONE),
        ("smtp://localhost", "localhost", 25, Tls.NONE),
        ("smtp://[::1]:26", "::1", 26, Tls.NONE),
        ("smtp://localhost?starttls=on", "localhost", 25, Tls.STARTTLS),
        ("smtp://mail.example.org?starttls=off", "mail.example.org", 25, Tls.NONE),
        ("smtp+starttls://localhost", "localhost", 587, Tls.STARTTLS),
        ("smtps://mail.example.org/", "mail.example.org", 465, Tls.IMPLICIT),
    ],
)
def test_a_url_says_where_and_how_safely(url: str, host: str, port: int, tls: Tls) -> None:
    relay = Relay.parse(url)
    assert (relay.host, relay.port, relay.tls) == (host, port, tls)


def test_user_and_password_are_percent_decoded_and_never_shown() -> None:
    relay = Relay.parse("smtps://me%40example.org:p%40ss%2Fword@mail.example.org")
    assert (relay.user, relay.password) == ("me@example.org", "p@ss/word")
    for text in (repr(relay), str(relay)):
        assert "p@ss" not in text
        assert "p%40ss" not in text
    assert str(relay) == "smtps://***@mail.example.org:465"


@pytest.mark.parametrize(
    "url",
    [
        "http://mail.example.org",
        "mail.example.org",
        "smtp://",
        "smtp://host:port",
        "smtp://host:99999",
        "smtp://host/path",
        "smtp://ho st",
        "smtp://host\r\nQUIT",
        "smtp://host?verify=maybe",
        "smtp://host?starttls=maybe",
        "smtp://host?unknown=1",
        "smtps://host?starttls=off",
        "smtp+starttls://host?starttls=off",
        "smtp://host?auth=ntlm",
        "smtp://host?name=a%0d%0aQUIT",
        "smtp://user@host",
        "smtp://user%00:secret@host",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="relay"):
        Relay.parse(url)


def test_an_error_about_a_url_does_not_show_its_password() -> None:
    for url in ("smtp://me:secret@host?x=1", "smtp://me:secret@host:port", "smpt://me:secret@host"):
        with pytest.raises(ConfigurationError) as caught:
            Relay.parse(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "warning"),
    [
        ("smtp://me:secret@mail.example.org?starttls=off", "in the clear"),
        ("smtps://me:secret@mail.example.org?verify=off", "pose as it"),
        ("smtp://me:secret@mail.example.org?starttls=off&auth_without_tls=on", "password may be read"),
    ],
)
def test_what_is_unsafe_is_said_loudly(url: str, warning: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "redrive.mail"):
        Relay.parse(url)
    assert warning in caplog.text
    assert "secret" not in caplog.text


def test_what_is_safe_is_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    for url in ("smtp://127.0.0.1", "smtps://mail.example.org", "smtp+starttls://mail.example.org"):
        Relay.parse(url)
    assert not caplog.records


def test_certificates_and_names_are_checked_unless_turned_off() -> None:
    context = Relay.parse("smtps://mail.example.org").tls_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    context = Relay.parse("smtps://mail.example.org?verify=off").tls_context()
    assert context.verify_mode is ssl.CERT_NONE


def test_an_authority_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no-such-file"):
        Relay.parse("smtps://mail.example.org?ca=no-such-file").tls_context()
