"""Requests that nobody means well: each is answered at once, and leaves nothing broken behind."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from redrive import Redrive
from redrive.web.admin import export
from redrive.web.admin.routes import AT_ONCE, WAITING
from tests.conformance.makers import dead
from tests.web.admin.asking import DLQ, good, rows_when
from tests.web.problems import problem


async def test_a_cursor_that_someone_made_up_is_no_accident(app: Redrive, viewer: httpx.AsyncClient) -> None:
    await dead(app.store)
    for letter in ("\ud800", 7, None, [], "a" * 300):
        made_up = base64.urlsafe_b64encode(json.dumps(["oldest", 1, letter, 0]).encode()).decode()
        answer = await viewer.get(f"{DLQ}/letters", params={"cursor": made_up})
        assert answer.status_code in (200, 422)


async def test_an_instant_that_no_calendar_has_breaks_no_group(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    group = {"by": "code", "key": "E42"}
    for at in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-01-31T08:00:00"):
        change = {"state": "ignored", "untilAt": at}
        problem(await operator.put(f"{DLQ}/group", params=group, json=change), 422, "invalid")
    assert good(await operator.get(f"{DLQ}/group", params=group))["said"]["state"] == "open"
    change = {"state": "ignored", "untilAt": "2999-12-31T23:59:59Z"}
    good(await operator.put(f"{DLQ}/group", params=group, json=change))
    assert [one["state"] for one in good(await operator.get(f"{DLQ}/groups?by=code"))["groups"]] == [
        "ignored"
    ]


async def test_a_place_beyond_the_audits_end_is_its_end(admin: httpx.AsyncClient) -> None:
    rows = good(await admin.get(f"{DLQ}/audit?cursor={2**53}&limit=1"))["rows"]
    assert rows == good(await admin.get(f"{DLQ}/audit?limit=1"))["rows"]


async def test_a_method_that_an_address_does_not_have_is_answered_with_all_it_has(
    stranger: httpx.AsyncClient,
) -> None:
    known = {
        "operations": "GET, HEAD, POST",
        "group": "GET, HEAD, PUT",
        "tenants/acme": "GET, HEAD, PATCH",
    }
    for path, methods in known.items():
        answer = await stranger.delete(f"{DLQ}/{path}")
        problem(answer, 405, "method-not-allowed")
        assert answer.headers["allow"] == methods


async def test_a_download_that_nobody_takes_ends_and_the_audit_says_so(
    app: Redrive, url: str, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PATIENCE_S", 0.3)
    for _ in range(2):
        await dead(app.store, 30, body=b'{"text": "%s"}' % (b"x" * 250_000))
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as idle:
        head = (
            f"GET {DLQ}/export HTTP/1.1\r\nHost: x\r\nAuthorization: {admin.headers['authorization']}\r\n\r\n"
        )
        idle.sendall(head.encode())
        outcome, _ = await rows_when(admin, 2, verb="export")
    assert (outcome["row"], outcome["ok"], outcome["error"]) == ("outcome", False, "BrokenOff")
    assert outcome["result"]["letters"] < 60


async def test_many_searches_of_one_key_wait_for_one_another_and_not_others_for_them(
    app: Redrive, viewer: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    many = [asyncio.create_task(viewer.get(f"{DLQ}/groups")) for _ in range(60)]
    good(await operator.get(f"{DLQ}/groups"))
    statuses = [(await one).status_code for one in many]
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) >= AT_ONCE + WAITING
    good(await viewer.get(f"{DLQ}/groups"))
