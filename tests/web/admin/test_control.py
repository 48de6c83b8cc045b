"""Switches, status, SQL, audit and downloads over HTTP."""

from __future__ import annotations

import csv
import json

import httpx

from redrive import Redrive
from redrive.core.lanes import LaneState
from redrive.core.letters import LetterKey
from redrive.core.lifecycle import Move
from tests.conformance.makers import dead
from tests.web.admin.asking import DLQ, SECRET, good, rows_of, rows_when
from tests.web.problems import problem


async def test_a_queue_is_paused_and_resumed(
    app: Redrive, operator: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    for verb, state in (("pause", "paused"), ("resume", "running")):
        assert good(await operator.post(f"{DLQ}/queues/orders/{verb}"))["state"] == state
        (queue,) = good(await operator.get(f"{DLQ}/status"))["queues"]
        assert queue["state"] == state
    problem(await operator.post(f"{DLQ}/queues/nobody/pause"), 404, "not-found")
    problem(await acme_operator.post(f"{DLQ}/queues/orders/pause"), 403, "forbidden")


async def test_a_queue_that_has_nothing_open_is_deleted(
    app: Redrive,
    admin: httpx.AsyncClient,
    operator: httpx.AsyncClient,
    viewer: httpx.AsyncClient,
    acme_operator: httpx.AsyncClient,
) -> None:
    (letter,) = await dead(app.store)
    refused = problem(await operator.delete(f"{DLQ}/queues/orders"), 409, "wrong-state")
    assert "messages: 1 dead" in refused["detail"]
    await app.store.remove("orders", [LetterKey(letter)], Move.DISCARD, actor="ana")
    problem(await operator.delete(f"{DLQ}/queues/orders"), 409, "wrong-state")
    for client in (viewer, acme_operator):
        problem(await client.delete(f"{DLQ}/queues/orders"), 403, "forbidden")
    app.skew_ms += 86_400_000
    assert good(await operator.delete(f"{DLQ}/queues/orders")) == {"queue": "orders", "removed": 1}
    assert good(await viewer.get(f"{DLQ}/queues"))["queues"] == []
    problem(await operator.delete(f"{DLQ}/queues/orders"), 404, "not-found")
    assert (await rows_of(admin, verb="delete queue"))[0]["result"] == {"removed": 1}


async def test_a_tenant_is_given_a_weight_a_cap_and_a_rate_and_loses_them(
    app: Redrive, operator: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    url = f"{DLQ}/tenants/acme"
    (lane,) = good(await operator.patch(url, json={"weight": 3, "cap": 2, "rate": "10/s"}))["queues"]
    assert (lane["weight"], lane["cap"], lane["rate"]) == (3, 2, "10/s")
    (lane,) = good(await operator.patch(url, json={"cap": None, "rate": None}))["queues"]
    assert (lane["weight"], lane["cap"], lane["rate"]) == (3, None, None)
    for change in ({}, {"weight": 0}, {"cap": 0}, {"rate": "fast"}, {"state": "paused"}):
        problem(await operator.patch(url, json=change), 422, "invalid")
    problem(await operator.patch(f"{DLQ}/tenants/nobody", json={"weight": 3}), 404, "not-found")
    problem(await acme_operator.patch(url, json={"weight": 9}), 403, "forbidden")


async def test_a_bound_operator_stops_and_starts_its_own_tenant_alone(
    app: Redrive, acme_operator: httpx.AsyncClient, globex_operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    problem(await globex_operator.post(f"{DLQ}/tenants/acme/pause"), 404, "not-found")
    problem(await globex_operator.get(f"{DLQ}/tenants/acme"), 404, "not-found")
    problem(await globex_operator.get(f"{DLQ}/queues/orders/tenants"), 404, "not-found")
    assert good(await acme_operator.post(f"{DLQ}/tenants/acme/pause?queue=orders"))["companyId"] == "acme"
    lane = await app.store.lane("orders", "acme")
    assert lane is not None
    assert lane.state is LaneState.PAUSED
    good(await acme_operator.post(f"{DLQ}/tenants/acme/resume"))
    (tenant,) = good(await acme_operator.get(f"{DLQ}/queues/orders/tenants"))["tenants"]
    assert tenant["state"] == "running"


async def test_sql_is_answered_masked_and_an_error_has_its_place(
    app: Redrive, admin: httpx.AsyncClient
) -> None:
    await dead(app.store, 2, body=SECRET)
    asked = {"sql": "SELECT companyId, count(*), max(originalData) FROM dlq GROUP BY 1"}
    answer = good(await admin.post(f"{DLQ}/sql", json=asked))
    assert answer["rows"][0][:2] == ["acme", 2]
    assert "hunter2" not in str(answer)
    assert "hunter2" in (await admin.post(f"{DLQ}/sql?reveal=true", json=asked)).text
    assert len(await rows_of(admin, verb="reveal")) == 2
    assert good(await admin.post(f"{DLQ}/sql", json={"saved": "by-company"}))["rows"] == [["acme", 2]]
    refused = await admin.post(f"{DLQ}/sql", json={"sql": "SELECT * FRM dlq"})
    assert problem(refused, 400, "bad-query")["errors"][0]["position"] == 9
    for body in ({}, {"saved": "nothing"}, {"sql": "SELECT 1", "saved": "by-code"}):
        problem(await admin.post(f"{DLQ}/sql", json=body), 422, "invalid")


async def test_the_audit_is_read_in_pages_and_found_whole(app: Redrive, admin: httpx.AsyncClient) -> None:
    await dead(app.store)
    for _ in range(3):
        await admin.post(f"{DLQ}/queues/orders/pause")
    first = good(await admin.get(f"{DLQ}/audit?verb=pause&limit=4"))
    rest = good(await admin.get(f"{DLQ}/audit?verb=pause&limit=4&cursor={first['cursor']}"))
    positions = [row["position"] for page in (first, rest) for row in page["rows"]]
    assert len(positions) == 6
    assert positions == sorted(positions, reverse=True)
    assert first["rows"][0]["actor"].startswith("admin#")
    assert first["rows"][0]["origin"] == "http 127.0.0.1"
    found = good(await admin.get(f"{DLQ}/audit/verify"))
    assert found["whole"]
    kept = good(await admin.get(f"{DLQ}/audit/verify", params={"head": found["head"]}))
    assert kept["whole"]
    other = f"{found['head'].partition(':')[0]}:{'0' * 64}"
    assert not good(await admin.get(f"{DLQ}/audit/verify", params={"head": other}))["whole"]
    problem(await admin.get(f"{DLQ}/audit?since=yesterday"), 422, "invalid")


async def test_letters_are_downloaded_masked_and_only_ones_own(
    app: Redrive, viewer: httpx.AsyncClient, globex_operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    await dead(app.store, 120, body=SECRET)
    await dead(app.store, 1, tenant="globex", body=b'{"formula": "=1+1"}')
    download = await viewer.get(f"{DLQ}/export")
    assert download.headers["content-disposition"] == 'attachment; filename="dead-letters.jsonl"'
    assert download.headers["x-content-type-options"] == "nosniff"
    letters = [json.loads(line) for line in download.text.splitlines()]
    assert len(letters) == 121
    assert "hunter2" not in download.text
    table = list(csv.DictReader((await viewer.get(f"{DLQ}/export?format=csv&limit=7")).text.splitlines()))
    assert len(table) == 7
    own = (await globex_operator.get(f"{DLQ}/export?reveal=true")).text.splitlines()
    assert [json.loads(line)["companyId"] for line in own] == ["globex"]
    outcomes = [row for row in await rows_of(admin, verb="export") if row["row"] == "outcome"]
    assert [row["result"]["letters"] for row in outcomes] == [1, 7, 121]
    intents = [row for row in await rows_of(admin, verb="export") if row["row"] == "intent"]
    assert [row["subject"]["reveal"] for row in intents] == [True, False, False]


async def test_a_download_that_breaks_off_is_told_as_such(
    app: Redrive, operator: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    for _ in range(5):
        await dead(app.store, 20, body=b'{"text": "%s"}' % (b"x" * 300_000))
    async with operator.stream("GET", f"{DLQ}/export?reveal=true") as download:
        await anext(download.aiter_raw())
    rows = await rows_when(admin, 2, verb="export")
    assert (rows[0]["row"], rows[0]["ok"], rows[0]["error"]) == ("outcome", False, "BrokenOff")
    assert rows[0]["result"].get("letters", 0) < 100
