"""Every page x role x tenant: let in or refused, and never another tenant's data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from redrive import Redrive
from redrive.office.access import Role
from redrive.web.access import PUBLIC, GuardedRoute
from redrive.web.api import make_api
from redrive.web.pages.door import PageDoor
from tests.pages.forms import SAME_ORIGIN, form_token, sign_in_now
from tests.pages.shop import ORDERS, Shop, make_app

READERS = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})
PUBLIC_PAGES = {"/sign-in", "/sign-out", "/link/{token}", "/preferences", "/static/{version}/{name}"}
SECRET = "the-secret-of-acme"  # noqa: S105 - what must not be seen
KEYS = [(role, tenant) for role in sorted(READERS) for tenant in (None, "acme", "globex")]
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "dashboard.md"


@dataclass(frozen=True)
class Step:
    """A request about acme's things. `others`: what who is bound to globex gets, where that is another."""

    method: str
    path: str
    roles: frozenset[Role] = READERS
    status: int = 200
    others: int | None = None
    unbound: bool = False
    query: str = ""
    form: tuple[tuple[str, str], ...] = ()

    def expected(self, role: Role, tenant: str | None) -> int:
        if role not in self.roles or (self.unbound and tenant is not None):
            return 403
        return self.others if tenant == "globex" and self.others is not None else self.status


WALK = (
    Step("GET", "/"),
    Step("GET", "/letters", query="filter=code:400&view=letters"),
    Step("GET", "/letters/suggest", query="text=tenant:"),
    Step("POST", "/letters/views", OPERATORS, 303, form=(("name", "mine"), ("filter", "code:400"))),
    Step("GET", "/group", query="by=code&key=400"),
    Step("POST", "/group", OPERATORS, 303, form=(("by", "code"), ("key", "400"), ("verb", "resolve"))),
    Step("GET", "/letters/{id}", others=404),
    Step("GET", "/letters/{id}/raw", OPERATORS, others=404),
    Step("GET", "/letters/{id}/frame", OPERATORS, 404),
    Step("GET", "/letters/{id}/edit", OPERATORS, others=404),
    Step("POST", "/letters/{id}/edit", OPERATORS, others=404, form=(("generation", "0"), ("payload", "{}"))),
    Step("GET", "/messages/{id}", status=303, others=404),
    Step("POST", "/messages/{id}", OPERATORS, 303, others=404, form=(("verb", "run_now"),)),
    Step("GET", "/preview", OPERATORS, query="filter=code:400"),
    Step("GET", "/operations"),
    Step("POST", "/operations", OPERATORS, 422),
    Step("GET", "/operations/{id}", status=404),
    Step("POST", "/operations/{id}", OPERATORS, 404, form=(("verb", "pause"),)),
    Step("GET", "/messages"),
    Step("GET", "/queues"),
    Step("GET", "/queues/{queue}"),
    Step("POST", "/queues/{queue}", OPERATORS, 303, unbound=True, form=(("verb", "resume"),)),
    Step("GET", "/tenants"),
    Step("GET", "/tenants/{tenant}", others=404),
    Step("POST", "/tenants/{tenant}", OPERATORS, 303, others=404, form=(("verb", "resume"),)),
    Step("GET", "/mail"),
    Step("GET", "/mail/inbox/{id}", OPERATORS, 404, unbound=True),
    Step("GET", "/mail/inbox/{id}/frame", OPERATORS, 404, unbound=True),
    Step("GET", "/alerts"),
    Step("POST", "/alerts", OPERATORS, 422, unbound=True),
    Step("GET", "/audit", ADMINS, unbound=True),
    Step("GET", "/sql", ADMINS, unbound=True),
    Step("POST", "/sql", ADMINS, unbound=True, form=(("sql", "SELECT count(*) FROM dlq"),)),
    Step("GET", "/keys", ADMINS, unbound=True),
    Step("POST", "/keys", ADMINS, 422, unbound=True),
    Step("GET", "/keys/{id}/revoke", ADMINS, 404, unbound=True),
)
STREAMS = {"/live/queues", "/live/operations/{id}"}


def page_routes(app: Redrive) -> list[GuardedRoute]:
    routes = [one for one in make_api(app, app.mail).routes if isinstance(one, GuardedRoute)]
    return [one for one in routes if isinstance(one.door, PageDoor)]


async def test_every_page_says_who_may_see_it_and_is_walked(tmp_path: Path) -> None:
    async with make_app(tmp_path, set()) as app:
        routes = page_routes(app)
    for route in routes:
        assert (route.allowed is PUBLIC) == (route.path in PUBLIC_PAGES)
    found = {
        (method, route.path, route.unbound)
        for route in routes
        for method in route.methods or ()
        if route.allowed is not PUBLIC and route.path not in STREAMS
    }
    assert found == {(step.method, step.path, step.unbound) for step in WALK}


async def test_every_page_is_documented(tmp_path: Path) -> None:
    text = DOCUMENTATION.read_text("utf-8")
    async with make_app(tmp_path, set()) as app:
        pages = {
            one.path for one in page_routes(app) if one.allowed is not PUBLIC and "GET" in (one.methods or ())
        }
    assert sorted(path for path in pages - STREAMS if f"`{path}`" not in text) == []


@pytest.fixture(scope="module")
def names(shop: Shop) -> dict[str, str]:
    (letter,) = shop.bury(ORDERS, [{"cause": SECRET}], "acme")
    shop.bury(ORDERS, [{"cause": "of globex"}], "globex")
    return {"id": letter, "queue": ORDERS, "tenant": "acme"}


@pytest.mark.parametrize(("role", "tenant"), KEYS)
def test_a_visitor_gets_what_their_role_and_tenant_allow(
    shop: Shop, names: dict[str, str], role: Role, tenant: str | None
) -> None:
    with httpx.Client(base_url=shop.url, timeout=60) as client:
        sign_in_now(client, shop.key(role, tenant))
        token = form_token(client.get("/"))
        for step in WALK:
            path = step.path.format(**names)
            if step.method == "GET":
                response = client.get(path, params=step.query)
            else:
                data = {"token": token, **dict(step.form)}
                response = client.post(path, params=step.query, data=data, headers=SAME_ORIGIN)
            assert response.status_code == step.expected(role, tenant), (step, response.text)
            if tenant == "globex":
                told = response.text.replace(f'value="{path}', "").replace("tenant:acme", "")  # its own words
                assert not any(one in told for one in (SECRET, "acme", names["id"])), step
