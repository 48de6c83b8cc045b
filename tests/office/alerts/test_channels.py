"""Channels: what Slack, PagerDuty and webhooks get, where nothing is sent to, and that secrets stay so."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme

from redrive.core.alert_rules import AlertSettings, ChannelSettings
from redrive.core.alerts import AlertFigure, AlertRule, AlertScope, AlertSeverity
from redrive.core.errors import ConfigurationError
from redrive.office.alerts import https
from redrive.office.alerts.channels import Alerting, ChannelError, make_channel
from redrive.office.alerts.https import PostError, Target, post
from redrive.office.alerts.records import AlertNotice, NoticeKind
from redrive.testing import Mailbox
from tests.office.alerts.desk import webhook
from tests.office.alerts.endpoints import Endpoint, endpoint

CANARY = "canary-4f1c9d"
KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
async def place() -> AsyncIterator[Endpoint]:
    async with endpoint() as made:
        yield made


def notice(kind: NoticeKind = NoticeKind.FIRED) -> AlertNotice:
    return AlertNotice(
        id=f"key-1-{kind}",
        key="key",
        kind=kind,
        rule="dlq_high",
        severity=AlertSeverity.CRITICAL,
        subject="orders",
        text="132 dead letters (more than 100)",
        at=1_700_000_000_000,
        runbook="runbook#the-dead-letter-queue-grows-fast",
    )


async def test_a_webhook_gets_the_notice_signed_over_its_instant_and_its_body(place: Endpoint) -> None:
    await make_channel("ops", webhook(place.port, secret="s3cret")).send(notice())  # noqa: S106
    (request,) = place.received
    assert request.path == "/hook/canary-path"
    signed = hmac.new(b"s3cret", b"1700000000." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["redrive-signature"] == f"sha256={signed}"
    assert request.headers["idempotency-key"] == "key-1-fired"
    assert request.document["at"] == "2023-11-14T22:13:20.000Z"


async def test_pagerduty_gets_one_incident_that_is_resolved_under_the_same_key(place: Endpoint) -> None:
    url = f"pagerduty://{KEY}@127.0.0.1:{place.port}"
    channel = make_channel("pager", ChannelSettings(url=url, allow_http=True, allow_private=True))
    for kind in (NoticeKind.FIRED, NoticeKind.REMINDER, NoticeKind.CLEARED):
        await channel.send(notice(kind))
    assert [one.path for one in place.received] == ["/v2/enqueue"] * 3
    actions = [(one["event_action"], one["dedup_key"], one["routing_key"]) for one in place.documents]
    assert actions == [("trigger", "key", KEY), ("trigger", "key", KEY), ("resolve", "key", KEY)]
    payload = place.documents[0]["payload"]
    assert (payload["severity"], payload["source"], payload["class"]) == ("critical", "redrive", "dlq_high")
    assert payload["summary"] == "[critical] dlq_high: 132 dead letters (more than 100)"
    assert "payload" not in place.documents[2]


async def test_slack_gets_a_message_by_apprise_and_no_log_holds_its_tokens(
    place: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{place.port}/services")
    caplog.set_level(logging.DEBUG)
    logging.getLogger("apprise").setLevel(logging.DEBUG)
    token = "A1B2C3D4E5F6G7H8I9J0KLMN"  # noqa: S105 - what must not be logged
    channel = make_channel("slack", ChannelSettings(url=f"slack://T1JJ3T3L2/A1BRTD4JD/{token}/#ops"))
    await channel.send(notice())
    (request,) = place.received
    assert request.path.endswith(token)
    assert "132 dead letters" in request.body.decode()
    place.answer = "302 Found\r\nLocation: http://127.0.0.1:1/elsewhere"
    with pytest.raises(ChannelError, match="Slack did not take the notice"):
        await channel.send(notice())
    assert len(place.received) == 2
    assert token not in caplog.text


async def test_an_e_mail_goes_through_a_server_of_its_own() -> None:
    async with Mailbox() as mailbox:
        place = mailbox.url.removeprefix("smtp://")
        url = f"mailto://{place}?from=redrive@ops.example&to=ops@ops.example&mode=insecure"
        await make_channel("mail", ChannelSettings(url=url)).send(notice())
        (mail,) = await mailbox.wait_for(1)
    assert mail.subject == "[critical] dlq_high: 132 dead letters (more than 100)"
    assert mail.recipients == ("ops@ops.example",)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("302 Found\r\nLocation: https://elsewhere.example/", "redirects are not followed"),
        ("500 No", "answered 500"),
        ("404 Not Found", "answered 404"),
    ],
)
async def test_a_webhook_that_is_not_taken_says_why_without_its_address(
    place: Endpoint, answer: str, said: str
) -> None:
    place.answer = answer
    with pytest.raises(ChannelError, match=said) as caught:
        await make_channel("ops", webhook(place.port)).send(notice())
    assert "canary-path" not in str(caught.value)
    assert len(place.received) == 1


async def test_a_server_that_does_not_speak_tls_is_told_as_such() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/canary-path"
        channel = make_channel("ops", ChannelSettings(url=url, allow_private=True))
        with pytest.raises(ChannelError, match="TLS fails there"):
            await channel.send(notice())


async def test_an_endpoint_that_never_answers_is_given_up(
    place: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "TIMEOUT_S", 0.2)
    place.silent = True
    with pytest.raises(ChannelError):
        await make_channel("ops", webhook(place.port)).send(notice())


async def test_a_name_with_one_private_address_is_refused_before_anything_is_sent(
    place: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(*_: object, **__: object) -> list[Any]:
        public, inside = ("93.184.215.14", 443), ("127.0.0.1", place.port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", one) for one in (public, inside)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answer)
    target = Target.parse("https://hooks.example/x", allow_http=False, allow_private=False)
    with pytest.raises(PostError, match=r"127\.0\.0\.1, which is private: set allow_private"):
        await post(target, b"{}", {})
    assert place.received == []


async def test_the_checked_address_is_connected_to_and_the_certificate_checked_against_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority, asked = trustme.CA(), list[str]()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("hooks.example").configure_cert(server)
    authority.configure_trust(client)
    async with endpoint(server) as place:

        async def answer(host: str, *_: object, **__: object) -> list[Any]:
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", answer)
        url = f"https://hooks.example:{place.port}/x?y=1"
        target = Target.parse(url, allow_http=False, allow_private=True)
        await post(target, b"{}", {}, context=client)
        (request,) = place.received
        assert (request.path, request.headers["host"]) == ("/x?y=1", f"hooks.example:{place.port}")
        other = Target.parse(f"https://other.example:{place.port}/", allow_http=False, allow_private=True)
        with pytest.raises(PostError, match="certificate"):
            await post(other, b"{}", {}, context=client)
    assert asked == ["hooks.example", "other.example"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://hooks.example/x", "allow_http"),
        (f"https://user:{CANARY}@hooks.example/x", "holds a login"),
        ("https:///x", "names no host"),
        ("https://hooks.example:99999/", "cannot be read"),
        (f"https://hooks.example/{CANARY}\r\nX: y", "what is not ASCII"),
        ("pagerduty://", "pagerduty://KEY"),
        (f"pagerduty://{CANARY}!", "pagerduty://KEY"),
        (f"slakc://{CANARY}", "none that apprise knows"),
        (f"slack://{CANARY}", "none that apprise knows"),
    ],
)
def test_a_channel_that_cannot_be_fails_at_start_without_showing_its_url(url: str, said: str) -> None:
    desk = Alerting(AlertSettings(channels={"ops": ChannelSettings(url=url)}))
    with pytest.raises(ConfigurationError, match=said) as caught:
        desk.check()
    assert "[channels.ops]" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_channels_settings_do_not_show_its_url() -> None:
    assert CANARY not in repr(ChannelSettings(url=f"slack://{CANARY}", secret=CANARY))


def test_an_alert_about_mail_does_not_go_through_the_relay_that_mails_go_through() -> None:
    channels = {
        "mail": ChannelSettings(url="mailtos://ops:x@example.org?smtp=relay.example&to=ops@example.org"),
        "near": ChannelSettings(url="mailto://ops:x@relay.example"),
        "other": ChannelSettings(url="mailtos://ops:x@backup.example"),
        "chat": ChannelSettings(url="slack://a/b/c"),
    }
    desk = Alerting(AlertSettings(channels=channels), "relay.example", "email:send")
    lost = AlertRule(name="relay_lost", metric=AlertFigure.RELAY_LOST, scope=AlertScope.STORE)
    held = AlertRule(name="lane_held", metric=AlertFigure.LANE_HELD, scope=AlertScope.TENANT)
    assert desk.told_of(lost, "", None) == ("other", "chat")
    assert desk.told_of(held, "email:send/acme", "acme") == ("other", "chat")
    assert desk.told_of(held, "orders/acme", "acme") == tuple(channels)
