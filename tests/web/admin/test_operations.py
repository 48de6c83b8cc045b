"""Operations over HTTP: started, looked at, stopped; and never beyond the caller's tenant."""

from __future__ import annotations

import httpx
import pytest
from msgspec.structs import replace

from redrive import Redrive
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from redrive.core.records import Record
from redrive.office.audit import Actor
from redrive.office.operations import OperationKind, Order
from redrive.office.operations.records import OPERATION_RECORDS
from tests.conformance.makers import dead, drain
from tests.office.desks import work
from tests.waiting import wait_until
from tests.web.admin.asking import DLQ, SECRET, ended, good, rows_of
from tests.web.problems import fields, problem

ANA = Actor("ana@host", "test")


@pytest.mark.usefixtures("on_duty")
async def test_a_queues_oldest_letters_come_back_and_the_answer_says_where_to_look(
    app: Redrive, operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    ids = await dead(app.store, 12)
    started = await operator.post(f"{DLQ}/queues/orders:dlq/re-drive", json={"limit": 10})
    seen = await ended(operator, started)
    assert (seen["state"], seen["moved"]) == ("finished", 10)
    assert {one.message.id for one in await drain(app.store)} == set(ids[:10])
    verbs = [row["row"] for row in await rows_of(admin, action=seen["id"])]
    assert verbs == ["outcome", "frozen", "intent"]


async def test_a_redrive_that_cannot_be_is_refused_and_moves_nothing(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    url = f"{DLQ}/queues/orders/re-drive"
    for limit in (0, 501, "10", None, 1.5):
        problem(await operator.post(url, json={"limit": limit}), 422, "invalid")
    problem(await operator.post(url, json={}), 422, "invalid")
    problem(await operator.post(url, json={"limit": 1, "force": True}), 422, "invalid")
    problem(await operator.post(url, json={"limit": 1, "rate": "fast"}), 422, "invalid")
    problem(await operator.post(url, content=b"{"), 415, "not-json")
    problem(await operator.post(f"{DLQ}/queues/nobody/re-drive", json={"limit": 1}), 404, "not-found")
    assert good(await operator.get(f"{DLQ}/operations"))["operations"] == []


@pytest.mark.usefixtures("on_duty")
async def test_a_dry_run_counts_and_moves_nothing(app: Redrive, operator: httpx.AsyncClient) -> None:
    ids = await dead(app.store, 3) + await dead(app.store, 2, tenant="globex")
    order = {"kind": "discard", "filter": "queue:orders"}
    preview = good(await operator.post(f"{DLQ}/operations?dryRun=true", json=order))
    assert preview["count"] == 5
    assert [(one["companyId"], one["count"]) for one in preview["groups"]] == [("acme", 3), ("globex", 2)]
    preview = good(await operator.post(f"{DLQ}/queues/orders/re-drive?dryRun=true", json={"limit": 4}))
    assert preview["samples"] == ids[:4]
    assert good(await operator.get(f"{DLQ}/operations"))["operations"] == []


async def test_many_letters_have_a_canary_and_a_rate_unless_it_is_said_otherwise(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 21)
    for address, usual in (
        ("operations", {"kind": "redrive", "all": True}),
        ("queues/orders/re-drive", {"limit": 50}),
    ):
        preview = good(await operator.post(f"{DLQ}/{address}?dryRun=true", json=usual))
        assert (preview["canary"], preview["rate"], preview["seconds"]) == (5, "20/s", 1.05)
        without = {**usual, "canary": 0, "rate": "none"}
        preview = good(await operator.post(f"{DLQ}/{address}?dryRun=true", json=without))
        assert (preview["canary"], preview["rate"], preview["seconds"]) == (0, None, None)


async def test_it_must_be_said_which_letters_are_meant(operator: httpx.AsyncClient) -> None:
    for order in (
        {"kind": "discard"},
        {"kind": "discard", "ids": ["a"], "all": True},
        {"kind": "discard", "ids": ["a"], "limit": 3},
        {"kind": "discard", "all": True, "canary": 5},
        {"kind": "export", "all": True, "file": "/etc/passwd"},
        {"kind": "restore", "all": True},
        {"kind": "redrive", "ids": []},
        {"kind": "discard", "filter": ""},
        {"kind": "discard", "filter": " "},
        {"kind": "discard", "all": False},
        {"kind": "discard", "filter": "code:550", "all": True},
    ):
        problem(await operator.post(f"{DLQ}/operations", json=order), 422, "invalid")
    order = {"kind": "redrive", "filter": "oops:1"}
    problem(await operator.post(f"{DLQ}/operations", json=order), 400, "bad-query")


@pytest.mark.usefixtures("on_duty")
async def test_a_failing_canary_halts_and_leaves_the_others_unmoved(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 20)
    order = {"kind": "redrive", "filter": "queue:orders", "canary": 5}
    started = await operator.post(f"{DLQ}/operations", json=order)
    ran: list[int] = []

    async def five_ran() -> bool:
        ran.append(await work(app.store, lambda message: False))
        return sum(ran) >= 5

    await wait_until(five_ran, 20, "the canary has run")
    seen = await ended(operator, started)
    assert (seen["state"], seen["moved"], seen["failed"]) == ("halted", 5, 5)
    cancelled = good(await operator.post(f"{started.headers['location']}/cancel"))
    assert cancelled["state"] == "cancelled"
    problem(await operator.post(f"{started.headers['location']}/resume"), 409, "wrong-state")


@pytest.mark.usefixtures("on_duty")
async def test_an_operation_is_paused_and_goes_on(app: Redrive, operator: httpx.AsyncClient) -> None:
    await dead(app.store, 5)
    order = {"kind": "redrive", "filter": "queue:orders", "rate": "1/h"}
    started = await operator.post(f"{DLQ}/operations", json=order)
    where = started.headers["location"]
    assert good(await operator.post(f"{where}/pause"))["state"] == "paused"
    problem(await operator.post(f"{where}/pause"), 409, "wrong-state")
    assert good(await operator.post(f"{where}/resume"))["state"] in ("freezing", "moving")
    problem(await operator.post(f"{DLQ}/operations/nobody/pause"), 404, "not-found")


async def test_operations_are_listed_newest_first_in_pages(operator: httpx.AsyncClient) -> None:
    order = {"kind": "redrive", "all": True}
    started = [good(await operator.post(f"{DLQ}/operations", json=order), 202)["id"] for _ in range(3)]
    first = good(await operator.get(f"{DLQ}/operations?limit=2"))
    rest = good(await operator.get(f"{DLQ}/operations?limit=2&cursor={first['cursor']}"))
    listed = [one["id"] for page in (first, rest) for one in page["operations"]]
    assert sorted(listed) == sorted(started)
    assert listed == sorted(listed, reverse=True)
    assert rest["cursor"] is None


@pytest.mark.usefixtures("on_duty")
async def test_a_bound_operator_moves_its_own_tenants_letters_alone(
    app: Redrive, globex_operator: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    theirs = await dead(app.store, 3)
    own = await dead(app.store, 2, tenant="globex")
    by_id = {"kind": "discard", "ids": [*theirs, own[0]]}
    seen = await ended(globex_operator, await globex_operator.post(f"{DLQ}/operations", json=by_id))
    assert (seen["moved"], seen["notFound"]) == (1, 3)
    by_filter = {"kind": "discard", "filter": "tenant:acme,globex"}
    seen = await ended(globex_operator, await globex_operator.post(f"{DLQ}/operations", json=by_filter))
    assert seen["moved"] == 1
    for letter in theirs:
        account = await app.store.get(letter)
        assert account is not None
        assert account.state is State.DEAD
    of_all = await operator.post(f"{DLQ}/operations", json={"kind": "redrive", "filter": "id:none"})
    problem(await globex_operator.get(of_all.headers["location"]), 404, "not-found")
    problem(await globex_operator.post(f"{of_all.headers['location']}/cancel"), 404, "not-found")


async def test_letters_do_not_go_to_the_mail_gateway_or_to_a_queue_that_is_not_there(
    app: Redrive, operator: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 1, queue="email:send")
    await dead(app.store, 1, tenant="globex", queue="invoices")
    for name in ("email:send", "email:send:dlq"):
        order = {"kind": "redrive", "all": True, "toQueue": name}
        problem(await operator.post(f"{DLQ}/operations", json=order), 422, "invalid")
    order = {"kind": "redrive", "all": True, "toQueue": "nobody"}
    problem(await operator.post(f"{DLQ}/operations", json=order), 422, "invalid")
    elsewhere = order | {"toQueue": "invoices"}
    problem(await acme_operator.post(f"{DLQ}/operations", json=elsewhere), 422, "invalid")


async def test_an_edited_mail_is_still_a_mail(app: Redrive, operator: httpx.AsyncClient) -> None:
    (letter,) = await dead(app.store, 1, queue="email:send")
    edited, etag = {"payload": {"order": 8}}, {"If-Match": '"0"'}
    refused = await operator.post(f"{DLQ}/letters/{letter}/edit", json=edited, headers=etag)
    assert "it is not a mail" in problem(refused, 422, "invalid")["detail"]


@pytest.mark.usefixtures("on_duty")
async def test_an_edited_letter_comes_back_as_a_new_message(
    app: Redrive, operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    (letter,) = await dead(app.store, 1, body=SECRET)
    url = f"{DLQ}/letters/{letter}"
    etag = (await operator.get(url)).headers["etag"]
    edited = {"payload": {"order": 8, "password": "hunter2"}}
    problem(await operator.post(f"{url}/edit", json=edited), 428, "if-match-needed")
    problem(await operator.post(f"{url}/edit", json=edited, headers={"If-Match": '"1"'}), 412, "changed")
    masked = {"payload": {"order": 8, "password": "***"}}
    refused = await operator.post(f"{url}/edit", json=masked, headers={"If-Match": etag})
    assert fields(problem(refused, 422, "invalid")) == [(None, "payload")]
    started = await operator.post(f"{url}/edit", json=edited, headers={"If-Match": etag})
    assert (await ended(operator, started))["moved"] == 1
    (delivery,) = await drain(app.store)
    assert delivery.message.body == b'{"order":8,"password":"hunter2"}'
    assert delivery.message.id != letter
    (intent,) = [row for row in await rows_of(admin, verb="redrive") if row["row"] == "intent"]
    assert "hunter2" not in str(intent)
    changes = {one["path"]: one["after"] for one in intent["subject"]["changes"]}
    assert changes["order"] == "8"


async def test_another_tenants_letter_cannot_be_edited(
    app: Redrive, acme_operator: httpx.AsyncClient
) -> None:
    (letter,) = await dead(app.store, 1, tenant="globex")
    response = await acme_operator.post(f"{DLQ}/letters/{letter}/edit", json={"payload": 1})
    problem(response, 404, "not-found")


async def test_a_list_reads_few_operations_however_many_there_are(
    app: Redrive, operator: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = app.office.acting(ANA).operations
    newest = await desk.start(Order(OperationKind.REDRIVE))
    for age in range(1, 801):
        old = replace(newest, id=f"{newest.created_at - age * 60_000:012x}{age:08x}")
        await app.store.put_record(OPERATION_RECORDS, old.id, old.document(), expected=0)
    read, listing = 0, app.store.list_records

    async def counting(kind: str, *, after: str | None = None, limit: int = PAGE) -> list[Record]:
        nonlocal read
        found = await listing(kind, after=after, limit=limit)
        read += len(found) if kind == OPERATION_RECORDS else 0
        return found

    monkeypatch.setattr(app.store, "list_records", counting)
    listed: list[str] = []
    cursor = ""
    for _ in range(3):
        page = good(await operator.get(f"{DLQ}/operations?limit=20{cursor}"))
        listed += [one["id"] for one in page["operations"]]
        cursor = f"&cursor={page['cursor']}"
    assert listed == sorted(listed, reverse=True)
    assert len(set(listed)) == 60
    assert listed[0] == newest.id
    assert read < 600
    problem(await operator.get(f"{DLQ}/operations?cursor=nobody"), 422, "invalid")


async def test_a_bound_key_pages_through_the_operations_of_others_to_its_own(
    app: Redrive, globex_operator: httpx.AsyncClient
) -> None:
    of_globex = app.office.acting(ANA, "globex").operations
    own = await of_globex.start(Order(OperationKind.REDRIVE))
    for age in range(2_100):
        other = replace(
            own, id=f"{own.created_at + 60_000 + age:012x}{age:08x}", order=Order(OperationKind.REDRIVE)
        )
        await app.store.put_record(OPERATION_RECORDS, other.id, other.document(), expected=0)
    first = good(await globex_operator.get(f"{DLQ}/operations"))
    assert (first["operations"], first["cursor"] is None) == ([], False)
    then = good(await globex_operator.get(f"{DLQ}/operations?cursor={first['cursor']}"))
    assert ([one["id"] for one in then["operations"]], then["cursor"]) == ([own.id], None)


@pytest.mark.usefixtures("on_duty")
@pytest.mark.parametrize("kind", ["redrive", "discard"])
async def test_a_start_that_carries_its_dry_run_takes_what_that_counted(
    app: Redrive, operator: httpx.AsyncClient, kind: str
) -> None:
    ids = await dead(app.store, 2)
    order = {"kind": kind, "filter": "queue:orders"}
    preview = good(await operator.post(f"{DLQ}/operations?dryRun=true", json=order))
    app.store.skew_ms += 200
    await dead(app.store, 3)
    order |= {"asOf": preview["asOf"], "counted": preview["count"]}
    seen = await ended(operator, await operator.post(f"{DLQ}/operations", json=order))
    assert (seen["state"], seen["total"], seen["moved"]) == ("finished", 2, 2)
    assert {(await app.store.get(one)).state for one in ids}.isdisjoint({State.DEAD})  # type: ignore[union-attr]


@pytest.mark.usefixtures("on_duty")
async def test_a_queues_redrive_carries_the_instant_of_its_dry_run(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 2)
    url = f"{DLQ}/queues/orders/re-drive"
    preview = good(await operator.post(f"{url}?dryRun=true", json={"limit": 100}))
    app.store.skew_ms += 200
    await dead(app.store, 3)
    seen = await ended(operator, await operator.post(url, json={"limit": 100, "asOf": preview["asOf"]}))
    assert seen["moved"] == 2


@pytest.mark.parametrize("as_of", ["2026-01-31T08:00:00", "1969-12-31T23:59:59Z", "yesterday", 7])
async def test_an_instant_that_no_dry_run_gave_is_refused(
    operator: httpx.AsyncClient, as_of: str | int
) -> None:
    order = {"kind": "discard", "all": True, "asOf": as_of}
    problem(await operator.post(f"{DLQ}/operations", json=order), 422, "invalid")
