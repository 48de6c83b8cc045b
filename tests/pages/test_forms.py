"""Forms that no page of ours has: what the API would refuse is refused here, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from redrive.core.store import Store
from redrive.office.access import Role
from redrive.office.audit import AUDIT
from tests.pages.forms import SAME_ORIGIN, form_token, sign_in_now
from tests.pages.shop import ORDERS, Shop

LONG = "k" * 900_000


@pytest.fixture(scope="module", autouse=True)
def _letters(shop: Shop) -> None:
    shop.bury(ORDERS, [{"cause": "a letter of acme"}])


@pytest.fixture
def bound(shop: Shop) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shop.url, timeout=60) as opened:
        sign_in_now(opened, shop.key(Role.OPERATOR, "acme"))
        yield opened


@pytest.fixture
def admin(shop: Shop) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shop.url, timeout=60) as opened:
        sign_in_now(opened, shop.key(Role.ADMIN))
        yield opened


def send(client: httpx.Client, path: str, form: dict[str, str]) -> int:
    token = form_token(client.get("/operations"))
    return client.post(path, data={"token": token, **form}, headers=SAME_ORIGIN).status_code


async def rows(store: Store) -> int:
    return len(await store.read_journal(AUDIT))


@pytest.mark.parametrize("verb", ["note", "resolve", "reopen", "ignore"])
@pytest.mark.parametrize("length", [501, 900_000])
def test_a_group_of_an_endless_key_is_not_written_down(
    shop: Shop, bound: httpx.Client, verb: str, length: int
) -> None:
    before = shop.do(rows(shop.store))
    form = {"by": "code", "key": "k" * length, "verb": verb, "text": "x", "hours": "1"}
    assert send(bound, "/group", form) == 422
    assert shop.do(rows(shop.store)) == before
    assert shop.do(shop.store.list_records("group")) == []


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/letters/views", {"remove": LONG}),
        ("/letters/views", {"name": LONG, "filter": "code:1"}),
        ("/letters/views", {"name": "mine", "filter": f"code:{LONG}"}),
        ("/tenants/acme", {"verb": "pause", "queue": LONG}),
        ("/tenants/acme", {"verb": LONG}),
        ("/group", {"by": LONG, "key": "1", "verb": "resolve"}),
        ("/group", {"by": "code", "key": "1", "verb": "ignore", "count": "99999999999"}),
        ("/operations", {"kind": "redrive", "ids": LONG}),
    ],
)
def test_an_endless_field_is_refused_and_leaves_no_row(
    shop: Shop, bound: httpx.Client, path: str, form: dict[str, str]
) -> None:
    before = shop.do(rows(shop.store))
    assert send(bound, path, form) == 422
    assert shop.do(rows(shop.store)) == before


@pytest.mark.parametrize("length", [61, 1_500])
def test_a_view_whose_name_cannot_be_leaves_no_row(shop: Shop, bound: httpx.Client, length: int) -> None:
    before = shop.do(rows(shop.store))
    assert send(bound, "/letters/views", {"remove": "v" * length}) == 303
    assert shop.do(rows(shop.store)) == before


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"verb": "revoke", "key": LONG}, 422),
        ({"verb": "revoke", "key": "no key"}, 404),
        ({"verb": "end", "session": LONG}, 422),
        ({"verb": "end", "session": "no session"}, 404),
        ({"verb": "create", "role": "viewer", "name": LONG}, 422),
    ],
)
def test_keys_and_sessions_that_cannot_be_leave_no_row(
    shop: Shop, admin: httpx.Client, form: dict[str, str], status: int
) -> None:
    before = shop.do(rows(shop.store))
    assert send(admin, "/keys", form) == status
    assert shop.do(rows(shop.store)) == before


def test_a_bound_operator_gives_its_tenant_no_larger_share(bound: httpx.Client) -> None:
    assert send(bound, "/tenants/acme", {"verb": "set", "queue": ORDERS, "weight": "2"}) == 403


def test_a_cap_is_as_large_as_the_api_lets_it_be(admin: httpx.Client) -> None:
    form = {"verb": "set", "queue": ORDERS, "weight": "1"}
    assert send(admin, "/tenants/acme", {**form, "cap": "1000001"}) == 422
    assert send(admin, "/tenants/acme", {**form, "cap": "1000000"}) == 303
