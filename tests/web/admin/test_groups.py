"""Groups, shape and destinations over HTTP, and what people say of a group."""

from __future__ import annotations

import asyncio

import httpx

from redrive import Redrive
from tests.conformance.makers import dead
from tests.web.admin.asking import DLQ, good
from tests.web.problems import problem

GROUP = {"by": "code", "key": "E42"}


async def test_letters_are_counted_by_what_they_have_in_common(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    await dead(app.store, 3)
    await dead(app.store, 1, tenant="globex")
    (group,) = good(await viewer.get(f"{DLQ}/groups?by=code"))["groups"]
    assert (group["key"], group["count"], group["tenants"]) == ("E42", 4, 2)
    groups = good(await viewer.get(f"{DLQ}/groups?by=tenant&filter=tenant:globex"))["groups"]
    assert [(one["key"], one["count"]) for one in groups] == [("globex", 1)]
    shape = good(await viewer.get(f"{DLQ}/shape"))
    assert [(row["companyId"], row["total"]) for row in shape["tenants"]] == [("acme", 3), ("globex", 1)]


async def test_a_group_names_its_queues(app: Redrive, viewer: httpx.AsyncClient) -> None:
    for queue in ("orders", "billing"):
        await dead(app.store, 1, queue=queue)
    (group,) = good(await viewer.get(f"{DLQ}/groups?by=code"))["groups"]
    assert group["queues"] == ["billing", "orders"]
    assert good(await viewer.get(f"{DLQ}/group", params=GROUP))["group"]["queues"] == ["billing", "orders"]


async def test_a_bound_key_counts_its_own_tenant_and_reads_its_own_notes(
    app: Redrive, operator: httpx.AsyncClient, globex_operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 3)
    await dead(app.store, 1, tenant="globex")
    await operator.post(f"{DLQ}/group/notes", params=GROUP, json={"text": "acme pays late"})
    seen = good(await globex_operator.get(f"{DLQ}/group", params=GROUP))
    assert (seen["group"]["count"], seen["group"]["tenants"], seen["said"]["notes"]) == (1, 1, [])
    shape = good(await globex_operator.get(f"{DLQ}/shape"))
    assert [row["companyId"] for row in shape["tenants"]] == ["globex"]


async def test_mails_are_counted_by_destination_and_code_for_a_bound_key_its_own(
    app: Redrive, viewer: httpx.AsyncClient, globex_operator: httpx.AsyncClient
) -> None:
    body = b'{"from": "shop@acme.example", "to": ["ana@customer.example"], "messageId": "1"}'
    problem(await viewer.get(f"{DLQ}/destinations"), 404, "not-found")
    await dead(app.store, 3, queue="email:send", body=body)
    await dead(app.store, 1, queue="email:send", body=body, tenant="globex")
    for client, count in ((viewer, 4), (globex_operator, 1)):
        answer = await client.get(f"{DLQ}/destinations")
        (row,) = good(answer)["destinations"]
        assert row == {"domain": "customer.example", "code": "E42", "count": count}
        assert "ana@" not in answer.text
    other = good(await globex_operator.get(f"{DLQ}/destinations", params={"filter": "tenant:acme"}))
    assert (other["destinations"], other["looked"], other["whole"]) == ([], 0, True)


async def test_a_group_is_noted_ignored_resolved_and_opened(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 3)
    noted = await operator.post(f"{DLQ}/group/notes", params=GROUP, json={"text": "asked the bank"})
    assert good(noted)["said"]["notes"][0]["text"] == "asked the bank"
    for change in ({"state": "ignored", "untilCount": 9}, {"state": "resolved"}, {"state": "open"}):
        said = good(await operator.put(f"{DLQ}/group", params=GROUP, json=change))
        assert said["group"]["state"] == change["state"]
        assert len(said["said"]["notes"]) == 1
    for change in (
        {"state": "ignored"},
        {"state": "gone"},
        {"state": "resolved", "untilCount": 3},
        {"state": "ignored", "untilAt": "2030-01-01T00:00:00"},
    ):
        problem(await operator.put(f"{DLQ}/group", params=GROUP, json=change), 422, "invalid")
    problem(await operator.post(f"{DLQ}/group/notes", params=GROUP, json={"text": "  "}), 422, "invalid")


async def test_of_two_people_who_read_the_same_one_changes_it(
    app: Redrive, operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    await dead(app.store)
    etag = (await operator.get(f"{DLQ}/group", params=GROUP)).headers["etag"]
    changes = ({"state": "resolved"}, {"state": "ignored", "untilCount": 9})
    answers = await asyncio.gather(
        *(
            client.put(f"{DLQ}/group", params=GROUP, json=change, headers={"If-Match": etag})
            for client, change in zip((operator, admin), changes, strict=True)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412]
    again = await operator.put(f"{DLQ}/group", params=GROUP, json=changes[0], headers={"If-Match": etag})
    problem(again, 412, "changed")
