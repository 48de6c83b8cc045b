"""TLS that holds, TLS that must not be believed, and credentials that only cross what is safe."""

from __future__ import annotations

import base64
import datetime
import hmac
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme

from redrive.mail.smtp.errors import (
    AuthenticationFailed,
    Dropped,
    ProtocolError,
    Refused,
    SmtpError,
    SmtpPhase,
    TlsFailed,
)
from redrive.mail.smtp.opening import open_connection
from redrive.mail.smtp.relay import Relay
from tests.mail.attempts import MAIL
from tests.mail.scripted_server import Script, Session, deliver, greet, obliging, scripted

PASSWORD = "pässword"  # noqa: S105 - opens nothing


@dataclass(frozen=True)
class Authority:
    """A certificate authority that the relay trusts, and what it issued."""

    file: Path
    issuer: trustme.CA

    def server(
        self, name: str = "127.0.0.1", *, not_after: datetime.datetime | None = None
    ) -> ssl.SSLContext:
        return server_context(self.issuer, name, not_after)

    def relay(self, port: int, scheme: str, options: str = "") -> Relay:
        return Relay.parse(f"{scheme}://127.0.0.1:{port}?ca={self.file}{options}")


def server_context(
    issuer: trustme.CA, name: str, not_after: datetime.datetime | None = None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert(name, not_after=not_after).configure_cert(context)
    return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    issuer, file = trustme.CA(), tmp_path_factory.mktemp("tls") / "authority.pem"
    issuer.cert_pem.write_to_path(str(file))
    return Authority(file, issuer)


def starttls(context: ssl.SSLContext, *, injected: bytes = b"") -> Script:
    """A server that takes a mail after STARTTLS; its greeting before TLS offers more than it has."""

    async def script(session: Session) -> None:
        await greet(session, "STARTTLS", "PIPELINING", "AUTH PLAIN")
        line = await session.line()
        assert line == "STARTTLS"
        session.raw(b"220 go\r\n" + injected)
        await session.start_tls(context)
        await session.command("EHLO", "250-scripted.example\n250 8BITMIME")
        await deliver(session)

    return script


async def test_a_mail_goes_over_starttls(authority: Authority) -> None:
    async with scripted(starttls(authority.server())) as server:
        connection = await open_connection(authority.relay(server.port, "smtp+starttls"))
        assert connection.dialogue.capabilities.eight_bit_mime
        assert not connection.dialogue.capabilities.pipelining
        assert (await connection.send(MAIL))[0].accepted
        connection.quit()


async def test_a_mail_goes_over_tls_from_the_first_byte(authority: Authority) -> None:
    async with scripted(obliging("PIPELINING"), context=authority.server()) as server:
        connection = await open_connection(authority.relay(server.port, "smtps"))
        for _ in range(3):
            assert (await connection.send(MAIL))[0].accepted
        await connection.close()


@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
@pytest.mark.parametrize("flaw", ["expired", "wrong name", "unknown authority"])
async def test_a_certificate_that_must_not_be_believed_is_a_tls_error(
    authority: Authority, scheme: str, flaw: str
) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    context = {
        "expired": lambda: authority.server(not_after=past),
        "wrong name": lambda: authority.server("mail.example.org"),
        "unknown authority": lambda: server_context(trustme.CA(), "127.0.0.1"),
    }[flaw]()
    implicit = scheme == "smtps"
    script = obliging() if implicit else starttls(context)
    async with scripted(script, context=context if implicit else None) as server:
        with pytest.raises(TlsFailed, match="not trusted") as caught:
            await open_connection(authority.relay(server.port, scheme))
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        unchecked = await open_connection(authority.relay(server.port, scheme, "&verify=off"))
        assert (await unchecked.send(MAIL))[0].accepted
        unchecked.quit()


async def test_a_server_without_starttls_is_never_sent_a_mail(authority: Authority) -> None:
    async with scripted(obliging("PIPELINING")) as server:
        with pytest.raises(TlsFailed, match="does not offer STARTTLS"):
            await open_connection(authority.relay(server.port, "smtp+starttls"))
        assert [line[:4] for line in server.sessions[0].lines] == ["EHLO"]


@pytest.mark.parametrize(("code", "kind"), [(454, Refused), (502, TlsFailed)])
async def test_a_refused_starttls_sends_no_mail_and_says_if_it_is_for_now(
    authority: Authority, code: int, kind: type[SmtpError]
) -> None:
    async def script(session: Session) -> None:
        await greet(session, "STARTTLS")
        await session.command("STARTTLS", f"{code} no")
        await session.client_gone()

    async with scripted(script) as server:
        with pytest.raises(kind) as caught:
            await open_connection(authority.relay(server.port, "smtp+starttls"))
    assert (caught.value.code, caught.value.phase) == (code, SmtpPhase.STARTTLS)


async def test_bytes_injected_before_the_handshake_close_the_connection(authority: Authority) -> None:
    async with scripted(starttls(authority.server(), injected=b"250 injected\r\n")) as server:
        with pytest.raises(ProtocolError, match="attack"):
            await open_connection(authority.relay(server.port, "smtp+starttls"))


async def test_a_drop_in_the_handshake_is_a_drop(authority: Authority) -> None:
    async def script(session: Session) -> None:
        await greet(session, "STARTTLS")
        await session.command("STARTTLS", "220 go")
        await session.writer.drain()
        await session.reader.read(10)
        session.hang_up()

    async with scripted(script) as server:
        with pytest.raises(Dropped) as caught:
            await open_connection(authority.relay(server.port, "smtp+starttls"))
    assert caught.value.phase is SmtpPhase.STARTTLS


async def test_a_server_that_speaks_no_tls_is_a_tls_error(authority: Authority) -> None:
    async def script(session: Session) -> None:
        session.say("220 plain.example ESMTP")
        await session.client_gone()

    async with scripted(script) as server:
        with pytest.raises(TlsFailed):
            await open_connection(authority.relay(server.port, "smtps"))


def authenticates(offer: str, *answers: tuple[str, str]) -> Script:
    """A server that offers mechanisms and answers the client's lines one by one."""

    async def script(session: Session) -> None:
        await greet(session, offer)
        for verb, answer in answers:
            await session.command(verb, answer)
        await session.client_gone()

    return script


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def with_credentials(relay: Relay, **changes: object) -> Relay:
    return replace(relay, user="mé", password=PASSWORD, **changes)  # type: ignore[arg-type]


async def test_plain_and_login_say_user_and_password() -> None:
    plain = authenticates(
        "AUTH PLAIN", (f"AUTH PLAIN {encoded(chr(0) + 'mé' + chr(0) + 'pässword')}".upper(), "235 ok")
    )
    login = authenticates(
        "AUTH=LOGIN",
        ("AUTH LOGIN", f"334 {encoded('Username:')}"),
        (encoded("mé").upper(), f"334 {encoded('Password:')}"),
        (encoded("pässword").upper(), "235 ok"),
    )
    for script in (plain, login):
        async with scripted(script) as server:
            connection = await open_connection(with_credentials(server.relay))
            assert connection.usable
            connection.quit()


async def test_cram_md5_is_preferred_and_never_shows_the_password() -> None:
    digest = hmac.new("pässword".encode(), b"<1@host>", "md5").hexdigest()
    script = authenticates(
        "AUTH LOGIN PLAIN CRAM-MD5",
        ("AUTH CRAM-MD5", f"334 {encoded('<1@host>')}"),
        (encoded(f"mé {digest}").upper(), "235 ok"),
    )
    async with scripted(script) as server:
        connection = await open_connection(with_credentials(server.relay))
        assert connection.usable
        connection.quit()


async def test_a_mechanism_can_be_chosen() -> None:
    async with scripted(authenticates("AUTH PLAIN CRAM-MD5", ("AUTH PLAIN ", "235 ok"))) as server:
        connection = await open_connection(with_credentials(server.relay, mechanism="PLAIN"))
        connection.quit()


async def test_refused_credentials_are_an_error_that_does_not_repeat_them() -> None:
    secret = encoded("\x00mé\x00pässword")
    script = authenticates("AUTH PLAIN", ("AUTH PLAIN", f"535 5.7.8 cannot read AUTH PLAIN {secret}"))
    async with scripted(script) as server:
        with pytest.raises(AuthenticationFailed) as caught:
            await open_connection(with_credentials(server.relay))
    error = caught.value
    assert (error.phase, error.code, error.enhanced) == (SmtpPhase.AUTH, 535, "5.7.8")
    for text in (str(error), error.text):
        assert secret not in text
        assert "pässword" not in text


@pytest.mark.parametrize("offer", ["8BITMIME", "AUTH GSSAPI"])
async def test_a_server_that_offers_no_known_way_is_an_authentication_error(offer: str) -> None:
    async with scripted(obliging(offer)) as server:
        with pytest.raises(AuthenticationFailed, match="for AUTH"):
            await open_connection(with_credentials(server.relay))


async def test_a_password_is_not_shown_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback may; so the relay here says of itself that it is not."""
    monkeypatch.setattr(Relay, "loopback", property(lambda relay: False))
    async with scripted(obliging("AUTH PLAIN LOGIN")) as server:
        with pytest.raises(AuthenticationFailed, match="auth_without_tls"):
            await open_connection(with_credentials(server.relay))
        assert [line[:4] for line in server.sessions[0].lines] == ["EHLO"]
    async with scripted(authenticates("AUTH PLAIN", ("AUTH PLAIN", "235 ok"))) as server:
        connection = await open_connection(with_credentials(server.relay, auth_without_tls=True))
        connection.quit()


@pytest.mark.parametrize("challenge", ["334 %%%", f"334 {encoded('x')}"])
async def test_a_challenge_that_makes_no_sense_closes_the_connection(challenge: str) -> None:
    """Not base64; or another one when everything was said."""
    script = authenticates("AUTH CRAM-MD5", ("AUTH", challenge), ("", f"334 {encoded('again')}"))
    async with scripted(script) as server:
        with pytest.raises(ProtocolError) as caught:
            await open_connection(with_credentials(server.relay))
        assert caught.value.phase is SmtpPhase.AUTH
