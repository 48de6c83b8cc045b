"""Keys over HTTP: told once, followed by another, never with more rights than who makes them."""

from __future__ import annotations

import httpx

from redrive import Redrive
from redrive.office.access import Access, Limits, Role, verify
from redrive.office.audit import AUDIT
from tests.web.admin.asking import DLQ, good
from tests.web.conftest import MAIL, Login
from tests.web.problems import problem


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_key_is_made_used_rotated_and_revoked(
    app: Redrive, login: Login, stranger: httpx.AsyncClient
) -> None:
    admin = await login(Role.ADMIN)
    wanted = {"role": "submit", "companyId": "acme", "name": "shop", "fromDomains": ["shop.example"]}
    made = good(await admin.post(f"{DLQ}/keys", json={**wanted, "queues": ["orders*"], "expiresIn": 3600}))
    assert made["about"]["fromDomains"] == ["shop.example"]
    assert (await stranger.post("/v1/emails", json=MAIL, headers=bearer(made["key"]))).status_code == 202

    path = f"{DLQ}/keys/{made['about']['id']}"
    new = good(await admin.post(f"{path}/rotate", json={"overlap": 60}))
    for key in (made["key"], new["key"]):
        assert (await stranger.post("/v1/emails", json=MAIL, headers=bearer(key))).status_code == 202
    good(await admin.post(f"{path}/revoke"))
    problem(await stranger.post("/v1/emails", json=MAIL, headers=bearer(made["key"])), 401, "unauthenticated")

    listed = good(await admin.get(f"{DLQ}/keys"))["keys"]
    assert made["about"]["id"] not in [one["id"] for one in listed]
    everything = (await admin.get(f"{DLQ}/keys?ended=true")).text
    assert made["about"]["id"] in everything
    journal = str(await app.store.read_journal(AUDIT))
    for key in (made["key"], new["key"]):
        assert key[17:] not in everything + journal


async def test_who_may_not_reveal_makes_no_key_that_may(
    app: Redrive, access: Access, login: Login, stranger: httpx.AsyncClient
) -> None:
    _, text = await access.create(Role.ADMIN, None, limits=Limits(reveal=False))
    revealing, _ = await access.create(Role.OPERATOR, None)
    for path, body in (
        ("/keys", {"role": "viewer", "reveal": True}),
        ("/keys", {"role": "operator"}),
        (f"/keys/{revealing.id}/rotate", {}),
    ):
        problem(await stranger.post(f"{DLQ}{path}", json=body, headers=bearer(text)), 403, "forbidden")
    made = good(
        await stranger.post(f"{DLQ}/keys", json={"role": "operator", "reveal": False}, headers=bearer(text))
    )
    known = await verify(app.store, made["key"])
    assert known is not None
    assert not known.reveal


async def test_what_cannot_be_meant_is_refused(login: Login) -> None:
    admin = await login(Role.ADMIN)
    before = good(await admin.get(f"{DLQ}/keys"))
    for body in (
        {"role": "submit"},
        {"role": "submit", "companyId": "a b"},
        {"role": "viewer", "queues": ["orders"]},
        {"role": "submit", "companyId": "acme", "fromDomains": ["a b"]},
        {"role": "viewer", "expiresIn": 0},
        {"role": "root"},
    ):
        problem(await admin.post(f"{DLQ}/keys", json=body), 422, "invalid")
    assert len(good(await admin.get(f"{DLQ}/keys"))["keys"]) == len(before["keys"])
    problem(await admin.post(f"{DLQ}/keys/{'0' * 12}/rotate", json={}), 404, "not-found")
    problem(await admin.post(f"{DLQ}/keys/{'0' * 12}/revoke"), 404, "not-found")
