"""Passwords and TLS: who is let in, and what never crosses an open connection."""

from __future__ import annotations

import smtplib
import ssl
from base64 import b64encode
from pathlib import Path

import aiosmtplib
import pytest
import trustme

from redrive.core.errors import ConfigurationError
from redrive.mailbox import Mailbox, MailboxSettings, MailboxUser, server_tls
from tests.mailbox.clients import message, raw_client, with_smtplib

USER, PASSWORD = "user", "pass:word"
REQUIRED = MailboxSettings(require_auth=MailboxUser(USER, PASSWORD))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN", "CRAM-MD5"])
@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
async def test_the_right_password_is_let_in_by_every_mechanism(mechanism: str, password: str) -> None:
    async with Mailbox(settings=REQUIRED) as mailbox:

        def talk(client: smtplib.SMTP) -> None:
            client.ehlo()
            client.esmtp_features["auth"] = mechanism
            if password == PASSWORD:
                client.login(USER, password)
                client.send_message(message())
                return
            with pytest.raises(smtplib.SMTPAuthenticationError) as caught:
                client.login(USER, password)
            assert caught.value.smtp_code == 535

        await with_smtplib(mailbox, talk)
        assert mailbox.total == (1 if password == PASSWORD else 0)


async def test_another_client_logs_in_too() -> None:
    async with Mailbox(settings=REQUIRED) as mailbox:

        async def send(user: str | None, password: str | None) -> None:
            await aiosmtplib.send(
                message(), hostname=mailbox.host, port=mailbox.port, username=user, password=password
            )

        await send(USER, PASSWORD)
        with pytest.raises(aiosmtplib.SMTPAuthenticationError):
            await send(USER, "wrong")
        with pytest.raises(aiosmtplib.SMTPAuthenticationError):
            await send("another", PASSWORD)
        with pytest.raises(aiosmtplib.SMTPSenderRefused, match="authentication required"):
            await send(None, None)


async def test_anybody_is_let_in_or_nobody() -> None:
    async with Mailbox() as mailbox, raw_client(mailbox) as client:
        assert (await client.say("AUTH PLAIN " + b64encode(b"\0x\0y").decode())).startswith("235")
        assert (await client.say("AUTH PLAIN")).startswith("503")
    async with Mailbox(settings=MailboxSettings(reject_auth=True)) as mailbox, raw_client(mailbox) as client:
        assert (await client.say("AUTH PLAIN " + b64encode(b"\0x\0y").decode())).startswith("535 5.7.8")
        assert (await client.deliver("ok@x")).startswith("250")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["AUTH"], "504"),
        (["AUTH GSSAPI"], "504"),
        (["AUTH PLAIN *"], "501"),
        (["AUTH PLAIN !!!"], "501"),
        (["AUTH PLAIN", "AAAA"], "501"),
        (["AUTH PLAIN ="], "501"),
        (["AUTH LOGIN", "dXNlcg==", "*"], "501"),
        (["AUTH CRAM-MD5 AAAA"], "501"),
        (["AUTH CRAM-MD5", "AAAA"], "501"),
        (["AUTH LOGIN", "dXNlcg==", "d3Jvbmc="], "535"),
    ],
)
async def test_a_broken_login_is_refused_and_the_session_goes_on(lines: list[str], code: str) -> None:
    async with Mailbox(settings=REQUIRED) as mailbox, raw_client(mailbox) as client:
        answers = [await client.say(line) for line in lines]
        assert all(answer.startswith("334") for answer in answers[:-1])
        assert answers[-1].startswith(code)
        assert (await client.say("MAIL FROM:<a@x>")).startswith("530")


async def test_a_mail_comes_over_starttls_and_passwords_only_after_it(
    tls: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    wanted = MailboxSettings(tls=tls, require_auth=MailboxUser(USER, PASSWORD))
    async with Mailbox(settings=wanted) as mailbox:
        assert mailbox.url == f"smtp+starttls://127.0.0.1:{mailbox.port}"

        def talk(client: smtplib.SMTP) -> None:
            client.ehlo()
            assert client.has_extn("starttls")
            assert not client.has_extn("auth")
            assert client.docmd("AUTH", "PLAIN")[0] == 503
            client.starttls(context=trusting)
            assert client.docmd("MAIL", "FROM:<a@x>")[0] == 503
            client.ehlo()
            assert not client.has_extn("starttls")
            assert client.docmd("STARTTLS")[0] == 503
            client.login(USER, PASSWORD)
            client.send_message(message())
            client.sendmail("a@x", "ok@x", b"x" * 500 + b"\r\n" + b"y" * 70 + b"\r\n" * 50_000)

        await with_smtplib(mailbox, talk)
        assert mailbox.total == 2


async def test_what_was_sent_ahead_of_the_handshake_is_never_believed(tls: ssl.SSLContext) -> None:
    async with Mailbox(settings=MailboxSettings(tls=tls)) as mailbox, raw_client(mailbox) as client:
        client.write(b"STARTTLS\r\nMAIL FROM:<injected@x>\r\n")
        assert (await client.reply()).startswith("503 5.5.0")
        assert await client.reply() == ""


@pytest.mark.parametrize("handshake", [b"not a handshake at all\r\n", b""])
async def test_a_handshake_that_fails_or_never_comes_leaves_nothing_behind(
    tls: ssl.SSLContext, handshake: bytes
) -> None:
    async with Mailbox(settings=MailboxSettings(tls=tls)) as mailbox, raw_client(mailbox) as client:
        assert (await client.say("STARTTLS")).startswith("220")
        if handshake:
            client.write(handshake)
            while await client.reply():
                pass
        await mailbox.close()


@pytest.mark.parametrize("text", ["", "user", "user:", ":password"])
def test_credentials_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write user:password"):
        MailboxUser.parse(text)


def test_a_password_may_hold_colons_and_is_never_shown() -> None:
    credentials = MailboxUser.parse(f"{USER}:{PASSWORD}")
    assert credentials == MailboxUser(USER, PASSWORD)
    assert PASSWORD not in repr(MailboxSettings(require_auth=credentials))


def test_a_certificate_is_read_from_files_and_a_broken_one_named(
    authority: trustme.CA, tmp_path: Path
) -> None:
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    server_tls(tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(ConfigurationError, match=r"none\.pem"):
        server_tls(tmp_path / "none.pem", tmp_path / "key.pem")
    with pytest.raises(ConfigurationError, match=r"cert\.pem"):
        server_tls(tmp_path / "cert.pem", tmp_path / "cert.pem")
