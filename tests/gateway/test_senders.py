"""Who may send as whom: a tenant's domains and a key's, over HTTP and in Python."""

from __future__ import annotations

from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path

import httpx
import pytest

from redrive import Redrive
from redrive.core.grants import SenderDomains
from redrive.mail.writing.mail import InvalidMail, Mail
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import Actor
from redrive.web.server import serve
from redrive.wiring import load


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Redrive]:
    file = tmp_path / "redrive.toml"
    file.write_text('[tenants.acme]\nfrom = ["acme.example", "*.acme.example"]\n')
    given = {"store": f"sqlite:///{tmp_path}/redrive.db", "config": file}
    async with Redrive(settings=load(given, environ={}, folder=tmp_path)) as opened:
        yield opened


def mail(sender: str, **more: object) -> Mail:
    return Mail(from_=sender, to="ana@customer.example", text="Hello", **more)  # type: ignore[arg-type]


def message(**headers: str) -> EmailMessage:
    made = EmailMessage()
    for name, value in {"To": "ana@customer.example", **headers}.items():
        made[name.replace("_", "-")] = value
    made.set_content("Hello")
    return made


@pytest.mark.parametrize(
    "given",
    [
        mail("ceo@globex.example"),
        mail("ceo@acme.example.evil.example"),
        mail("Acme <ceo@ACME.example>", headers={"Sender": "ceo@globex.example"}),
        message(From="ceo@globex.example"),
        message(From="ceo@acme.example", Sender="ceo@globex.example"),
        message(From="ceo@globex.example", Sender="ceo@acme.example"),
        message(From="ceo@acme.example, ceo@globex.example"),
        message(From="ceo@acme.example", Resent_From="ceo@globex.example"),
    ],
)
async def test_a_tenant_with_domains_sends_from_no_other(app: Redrive, given: Mail | EmailMessage) -> None:
    with pytest.raises(InvalidMail) as caught:
        await app.mail.submit(given, tenant="acme")
    assert [problem.field for problem in caught.value.problems] == ["from"]
    assert "acme.example, *.acme.example" in str(caught.value)
    assert "globex" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        mail("Acme <shop@ACME.example>", reply_to="help@elsewhere.example"),
        mail("shop@mail.acme.example"),
        message(From="shop@acme.example", Sender="robot@mail.acme.example"),
    ],
)
async def test_its_own_domains_are_let_through(app: Redrive, given: Mail | EmailMessage) -> None:
    assert (await app.mail.submit(given, tenant="acme")).id


async def test_a_tenant_without_domains_sends_as_before(app: Redrive) -> None:
    assert (await app.mail.submit(mail("ceo@anything.example"), tenant="globex")).id


async def test_a_keys_domains_hold_over_http_besides_those_of_its_tenant(app: Redrive) -> None:
    access = Access(app.store, Actor("test", "test"))
    limits = Limits(senders=SenderDomains.parse(["shop.acme.example"]))
    _, key = await access.create(Role.SUBMIT, "acme", limits=limits)
    mails = [f"a@{domain}" for domain in ("shop.acme.example", "acme.example", "globex.example")]
    documents = [{"from": one, "to": "ana@customer.example", "text": "Hello"} for one in mails]
    async with serve(app, "127.0.0.1:0", mail=app.mail) as server:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers) as client:
            answers = [await client.post("/v1/emails", json=one) for one in documents]
            batch = await client.post("/v1/emails/batch", json={"emails": documents})
    assert [one.status_code for one in answers] == [202, 422, 422]
    assert answers[1].json()["errors"][0]["field"] == "from"
    assert [one["index"] for one in batch.json()["errors"]] == [1, 2]
    assert "globex" not in batch.text


@pytest.mark.parametrize("name", ["X-Redrive-Tenant", "x-redrive-anything", "X-REDRIVE-Id"])
async def test_nobody_sets_our_own_headers(app: Redrive, name: str) -> None:
    for given in (mail("a@acme.example", headers={name: "x"}), message(From="a@acme.example", **{name: "x"})):
        with pytest.raises(InvalidMail, match="Redrive's own"):
            await app.mail.submit(given, tenant="acme")
