"""`GET /admin/dlq/messages` and removing a tenant's waiting messages over HTTP."""

from __future__ import annotations

import httpx

from redrive import Redrive
from tests.conformance.makers import submit
from tests.web.admin.asking import DLQ, good, rows_of


async def ids(client: httpx.AsyncClient, **query: str) -> list[str]:
    page = good(await client.get(f"{DLQ}/messages", params=query))
    return [one["jobId"] for one in page["messages"]]


async def test_a_bound_key_lists_its_own_tenant(
    app: Redrive, operator: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    own = await submit(app.store, 2, tenant="acme")
    other = await submit(app.store, tenant="globex")
    assert await ids(operator) == own + other
    assert await ids(acme_operator) == own
    assert await ids(operator, tenant="globex", queue="orders", state="waiting") == other
    assert await ids(operator, state="scheduled") == []
    assert await ids(operator, olderThanS="3600") == []
    assert (await acme_operator.get(f"{DLQ}/messages", params={"tenant": "globex"})).status_code == 404


async def test_pages_have_a_cursor_and_a_bad_one_is_refused(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    sent = await submit(app.store, 3)
    page = good(await operator.get(f"{DLQ}/messages", params={"limit": 2}))
    assert await ids(operator, cursor=page["cursor"]) == sent[2:]
    for cursor in ("x", "orders@x"):
        assert (await operator.get(f"{DLQ}/messages", params={"cursor": cursor})).status_code == 422


async def test_an_operator_removes_what_waits_of_its_tenant(
    app: Redrive, admin: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    await submit(app.store, 3, tenant="acme")
    other = await submit(app.store, tenant="globex")
    where = f"{DLQ}/messages/remove"
    looked = good(await acme_operator.post(where, params={"tenant": "acme", "dryRun": "true"}))
    assert looked == {"companyId": "acme", "removed": 0, "waiting": 3}
    gone = good(await acme_operator.post(where, params={"tenant": "acme"}))
    assert gone == {"companyId": "acme", "removed": 3, "waiting": 0}
    assert (await acme_operator.post(where, params={"tenant": "globex"})).status_code == 404
    assert await ids(admin) == other
    outcome = (await rows_of(admin, verb="purge"))[0]
    assert outcome["result"] == {"moved": 3}


async def test_no_cursor_of_a_bound_key_names_a_queue_of_others(
    app: Redrive, acme_operator: httpx.AsyncClient
) -> None:
    for number in range(60):
        await submit(app.store, tenant="rival", queue=f"secret-{number:02}")
    own = await submit(app.store, 3, tenant="acme", queue="z-orders")
    found: list[str] = []
    query = {"limit": "1"}
    while True:
        answer = await acme_operator.get(f"{DLQ}/messages", params=query)
        assert "secret" not in answer.text
        page = good(answer)
        found += [one["jobId"] for one in page["messages"]]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert found == own
