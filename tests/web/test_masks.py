"""Mails as keys that do not submit see them: addresses and text masked, unless revealed, which is audited."""

from __future__ import annotations

import httpx

from redrive import Redrive
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import AUDIT
from tests.conformance.makers import bury, take
from tests.web.conftest import MAIL, Login
from tests.web.problems import problem

CANARY = "canary-in-the-text-of-a-mail"
SEVERAL = MAIL | {"to": ["ana@customer.example", "bob@customer.example"], "text": CANARY}


async def reveals(app: Redrive) -> list[object]:
    rows = [row.document for row in await app.store.read_journal(AUDIT)]
    return [row["subject"] for row in rows if row["verb"] == "reveal" and row["row"] == "intent"]


async def test_a_mail_is_shown_masked_to_who_does_not_submit_and_revealed_with_an_audit_row(
    app: Redrive, acme: httpx.AsyncClient, login: Login
) -> None:
    for given in (MAIL, SEVERAL):
        mail_id = (await acme.post("/v1/emails", json=given)).json()["id"]
        path = f"/v1/emails/{mail_id}"
        assert "ana@customer.example" in (await acme.get(path)).text
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
            shown = await (await login(role)).get(path)
            assert shown.status_code == 200
            assert "ana@" not in shown.text
            assert "bob@" not in shown.text
        before = await reveals(app)
        problem(await (await login(Role.VIEWER)).get(f"{path}?reveal=true"), 403, "forbidden")
        assert await reveals(app) == before
        assert "ana@customer.example" in (await (await login(Role.OPERATOR)).get(f"{path}?reveal=true")).text
        assert await reveals(app) == [*before, {"ids": [mail_id]}]
        problem(await acme.get(f"{path}?revael=true"), 422, "invalid")


async def test_the_right_to_reveal_is_the_keys_and_not_the_roles(
    app: Redrive, acme: httpx.AsyncClient, access: Access, stranger: httpx.AsyncClient
) -> None:
    mail_id = (await acme.post("/v1/emails", json=MAIL)).json()["id"]
    path = f"/v1/emails/{mail_id}?reveal=true"
    for role, reveal, status in ((Role.ADMIN, False, 403), (Role.VIEWER, True, 200)):
        _, key = await access.create(role, None, limits=Limits(reveal=reveal))
        answer = await stranger.get(path, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == status


async def test_the_text_of_a_mail_is_masked_wherever_letters_are_shown(
    app: Redrive, acme: httpx.AsyncClient, login: Login
) -> None:
    mail_id = (await acme.post("/v1/emails", json=MAIL | {"text": CANARY})).json()["id"]
    await bury(app.store, *await take(app.store, queue="email:send"))
    viewer, admin = await login(Role.VIEWER), await login(Role.ADMIN)
    paths = (
        f"letters/{mail_id}",
        "letters",
        f"messages/{mail_id}",
        "queues/email:send/messages",
        "export",
        "groups?by=tenant",
    )
    for path in paths:
        for client in (viewer, admin):
            shown = await client.get(f"/admin/dlq/{path}")
            assert shown.status_code == 200, shown.text
            assert CANARY not in shown.text
            assert "ana@customer.example" not in shown.text
    sql = await admin.post("/admin/dlq/sql", json={"sql": "select originalData from dlq"})
    assert sql.status_code == 200, sql.text
    assert CANARY not in sql.text
    guess = await viewer.get("/admin/dlq/letters", params={"filter": f"payload.content:{CANARY}"})
    problem(guess, 403, "forbidden")
    assert CANARY in (await admin.get(f"/admin/dlq/letters/{mail_id}?reveal=true")).text
