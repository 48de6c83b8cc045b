"""Getting in: with a key, with a link, and not otherwise; getting out; forms of other sites."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.office.sessions import LINK_RECORDS, SESSION_RECORDS, Sessions, redeem_link
from redrive.web.api import CONTENT_SECURITY_POLICY
from redrive.web.listen import ServerSettings
from redrive.web.server import serve
from tests.pages.forms import SAME_ORIGIN, form_token, sign_in
from tests.pages.shop import Shop, make_app, open_shop

ACTOR = Actor("test", "test")
ELSEWHERE = ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:x"]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path) as opened:
        yield opened


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=shop.url, timeout=60) as opened:
        yield opened


async def key_of(shop: Shop, role: Role = Role.ADMIN, tenant: str | None = None) -> str:
    return (await Access(shop.store, ACTOR).create(role, tenant))[1]


async def test_who_is_not_signed_in_is_sent_to_sign_in_and_back(client: httpx.AsyncClient) -> None:
    response = await client.get("/?filter=tenant:acme")
    assert response.status_code == 303
    assert response.headers["location"] == "/sign-in?next=%2F%3Ffilter%3Dtenant%3Aacme"


async def test_a_key_opens_a_session_that_scripts_and_other_sites_cannot_use(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    response = await sign_in(client, await key_of(shop))
    assert response.status_code == 303
    cookie = next(
        one for one in response.headers.get_list("set-cookie") if one.startswith("redrive-session=")
    )
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    page = await client.get("/")
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert page.headers["cache-control"] == "no-store"


async def test_the_store_keeps_only_the_hash_of_a_session(shop: Shop, client: httpx.AsyncClient) -> None:
    await sign_in(client, await key_of(shop))
    token = client.cookies["redrive-session"]
    (record,) = await shop.store.list_records(SESSION_RECORDS)
    assert token.split("_", 2)[2] not in str(record.document)


async def test_a_wrong_key_and_a_submit_key_open_nothing(shop: Shop, client: httpx.AsyncClient) -> None:
    wrong = await sign_in(client, "rdk_000000000000_" + "x" * 43)
    assert wrong.status_code == 401
    assert "unknown, revoked" in wrong.text
    submit = await sign_in(client, await key_of(shop, Role.SUBMIT, "acme"))
    assert submit.status_code == 403
    assert await shop.store.list_records(SESSION_RECORDS) == []


async def test_a_session_ends_with_signing_out_with_its_key_and_when_it_is_revoked(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    access = Access(shop.store, ACTOR)
    key, text = await access.create(Role.VIEWER, None)
    await sign_in(client, text)
    page = await client.get("/")
    assert page.status_code == 200
    await client.post("/sign-out", data={"token": form_token(page)}, headers=SAME_ORIGIN)
    assert (await client.get("/")).status_code == 303

    await sign_in(client, text)
    (session,) = await Sessions(shop.store, ACTOR).list()
    assert await Sessions(shop.store, ACTOR).revoke(session.id)
    assert (await client.get("/")).status_code == 303

    await sign_in(client, text)
    await access.revoke(key.id)
    assert (await client.get("/")).status_code == 303


async def test_a_link_works_once(shop: Shop, client: httpx.AsyncClient) -> None:
    await key_of(shop)
    _, token = await Sessions(shop.store, ACTOR).link()
    assert (await client.get(f"/link/{token}")).status_code == 200
    assert (await client.get("/")).status_code == 200
    client.cookies.clear()
    again = await client.get(f"/link/{token}")
    assert again.status_code == 403
    assert "redrive-session" not in client.cookies


async def test_of_many_at_once_one_uses_a_link(shop: Shop, client: httpx.AsyncClient) -> None:
    await key_of(shop)
    _, token = await Sessions(shop.store, ACTOR).link()
    answers = await asyncio.gather(*(client.get(f"/link/{token}") for _ in range(8)))
    assert sorted(one.status_code for one in answers) == [200] + [403] * 7


async def test_a_link_is_for_this_machine_unless_made_for_others(shop: Shop) -> None:
    await key_of(shop)
    _, token = await Sessions(shop.store, ACTOR).link()
    assert await redeem_link(shop.store, token, local=False) is None
    assert await redeem_link(shop.store, token, local=True) is not None
    _, token = await Sessions(shop.store, ACTOR).link(remote=True)
    assert await redeem_link(shop.store, token, local=False) is not None


async def test_a_link_is_kept_for_ten_minutes_as_a_hash(shop: Shop) -> None:
    await key_of(shop)
    _, token = await Sessions(shop.store, ACTOR).link()
    (record,) = await shop.store.list_records(LINK_RECORDS)
    assert token.split("_", 2)[2] not in str(record.document)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_a_form_of_another_site_is_refused(shop: Shop, client: httpx.AsyncClient, site: str) -> None:
    await sign_in(client, await key_of(shop))
    token = form_token(await client.get("/"))
    response = await client.post("/sign-out", data={"token": token}, headers={"Sec-Fetch-Site": site})
    assert response.status_code == 403
    assert (await client.get("/")).status_code == 200


async def test_a_form_without_its_token_is_refused(shop: Shop, client: httpx.AsyncClient) -> None:
    await sign_in(client, await key_of(shop))
    for data in ({"other": "1"}, {"token": "0" * 64}):
        response = await client.post("/sign-out", data=data, headers=SAME_ORIGIN)
        assert response.status_code == 403
    old = await client.post("/sign-out", data={"other": "1"}, headers={"Origin": "https://evil.example"})
    assert old.status_code == 403
    assert (await client.get("/")).status_code == 200


async def test_a_sign_in_form_needs_the_cookie_it_came_with(shop: Shop, client: httpx.AsyncClient) -> None:
    token = form_token(await client.get("/sign-in"))
    client.cookies.clear()
    response = await client.post("/sign-in", data={"token": token, "key": await key_of(shop)})
    assert response.status_code == 403


@pytest.mark.parametrize(
    "next_page", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:x"]
)
async def test_after_signing_in_nobody_is_sent_elsewhere(
    shop: Shop, client: httpx.AsyncClient, next_page: str
) -> None:
    response = await sign_in(client, await key_of(shop), next_page)
    assert response.headers["location"] == "/"


async def test_the_language_is_that_of_the_browser_or_the_one_chosen(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    portuguese = await client.get("/sign-in", headers={"Accept-Language": "pt-BR,pt;q=0.9,en;q=0.5"})
    assert '<html lang="pt"' in portuguese.text
    await sign_in(client, await key_of(shop))
    data = {"token": form_token(await client.get("/")), "language": "pt", "theme": "dark", "next": "/"}
    await client.post("/preferences", data=data, headers=SAME_ORIGIN)
    page = await client.get("/", headers={"Accept-Language": "en"})
    assert '<html lang="pt" data-theme="dark"' in page.text


async def test_signing_in_and_out_is_in_the_audit(shop: Shop, client: httpx.AsyncClient) -> None:
    await sign_in(client, await key_of(shop))
    token = form_token(await client.get("/"))
    await client.post("/sign-out", data={"token": token}, headers=SAME_ORIGIN)
    rows = await shop.store.read_journal("audit")
    verbs = [row.document["verb"] for row in rows if row.document.get("origin", "").startswith("dashboard")]
    assert verbs == ["sign in", "sign in", "end session", "end session"]


async def test_who_is_bound_to_a_tenant_sees_that_tenant_alone(shop: Shop, client: httpx.AsyncClient) -> None:
    for tenant in ("acme", "globex"):
        await shop.app.submit("orders", {"cause": f"of {tenant}"}, tenant=tenant)
    await sign_in(client, await key_of(shop, Role.VIEWER, "acme"))
    page = await client.get("/")
    assert page.status_code == 200
    assert "globex" not in page.text


@pytest.mark.parametrize("next_page", ["//[bad", "http://[", "//\u2100", "/" + "x" * 3_000])
async def test_a_place_to_go_on_to_that_is_none_is_the_overview(
    shop: Shop, client: httpx.AsyncClient, next_page: str
) -> None:
    asked = await client.get("/sign-in", params={"next": next_page})
    assert (asked.status_code, 'name="next" value="/"' in asked.text) == (200, True)
    if len(next_page) < 2_000:
        response = await sign_in(client, await key_of(shop), next_page)
        assert response.headers["location"] == "/"


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "//\u2100"])
async def test_an_origin_that_cannot_be_read_is_another_site(client: httpx.AsyncClient, origin: str) -> None:
    token = form_token(await client.get("/sign-in"))
    headers = {"Origin": origin.encode()}
    response = await client.post("/sign-in", data={"token": token, "key": "x"}, headers=headers)
    assert (response.status_code, "another site sent this form" in response.text) == (403, True)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
async def test_a_link_of_this_machine_does_not_work_through_a_proxy_that_nobody_named(
    shop: Shop, client: httpx.AsyncClient, header: str
) -> None:
    await key_of(shop)
    _, token = await Sessions(shop.store, ACTOR).link()
    for value in ("203.0.113.9", "127.0.0.1"):
        assert (await client.get(f"/link/{token}", headers={header: value})).status_code == 403
    assert (await client.get(f"/link/{token}")).status_code == 200


@pytest.mark.parametrize(
    ("forwarded", "status"),
    [
        ({"X-Forwarded-For": "203.0.113.9"}, 403),
        ({"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}, 403),
        ({"X-Forwarded-For": "203.0.113.9, 127.0.0.1"}, 403),
        ({"X-Forwarded-For": "127.0.0.1"}, 200),
        ({}, 403),
    ],
)
async def test_through_a_named_proxy_a_link_of_this_machine_works_for_whom_the_proxy_says_is_on_it(
    tmp_path: Path, forwarded: dict[str, str], status: int
) -> None:
    settings = ServerSettings(trusted_proxies=("127.0.0.1",))
    app = make_app(tmp_path, set())
    async with (
        serve(app, "127.0.0.1:0", settings=settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        await Access(app.store, ACTOR).create(Role.ADMIN, None)
        _, token = await Sessions(app.store, ACTOR).link()
        assert (await client.get(f"/link/{token}", headers=forwarded)).status_code == status


async def test_asking_for_the_head_of_a_link_does_not_use_it_up(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    await key_of(shop)
    _, token = await Sessions(shop.store, ACTOR).link()
    head = await client.head(f"/link/{token}")
    assert (head.status_code, "redrive-session" in client.cookies) == (200, False)
    assert (await client.get(f"/link/{token}")).status_code == 200
