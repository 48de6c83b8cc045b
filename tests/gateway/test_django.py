"""Django's mails are accepted by Redrive and arrive."""

from __future__ import annotations

from pathlib import Path

import django
import pytest
from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection, send_mail

import redrive.django as backend
from redrive import Redrive
from redrive.mailbox import Mailbox
from redrive.testing import run_until_idle
from redrive.wiring import load

from .conftest import make_gateway


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Redrive:
    if not settings.configured:
        settings.configure(EMAIL_BACKEND="redrive.django.EmailBackend", REDRIVE_TENANT="shop")
        django.setup()
    app = Redrive(settings=load({"store": f"sqlite:///{tmp_path}/redrive.db"}, environ={}))
    monkeypatch.setattr(backend, "_apps", [app])
    return app


async def test_what_django_sends_arrives_with_its_blind_copies_hidden(
    connected: Redrive, tmp_path: Path, inbox: Mailbox
) -> None:
    assert send_mail("Olá", "Text", "shop@acme.example", ["ok@example.org"]) == 1
    mail = EmailMultiAlternatives(
        "Two", "text", "shop@acme.example", ["ok+two@example.org"], bcc=["ok+hidden@example.org"]
    )
    mail.attach_alternative("<b>html</b>", "text/html")
    mail.extra_headers["X-Redrive-Tenant"] = "globex"
    assert get_connection().send_messages([mail]) == 1
    connected.sync.close()
    async with make_gateway(tmp_path, inbox.url) as app:
        await run_until_idle(app)
        tenants = [lane.tenant for lane in await app.store.lanes("email:send")]
    assert tenants == ["globex", "shop"]
    assert sorted(to for one in inbox.received for to in one.recipients) == [
        "ok+hidden@example.org",
        "ok+two@example.org",
        "ok@example.org",
    ]
    assert not any(b"hidden" in one.content or b"X-Redrive" in one.content for one in inbox.received)
