"""Health: alive, able to work, and how full the outbox is."""

from __future__ import annotations

import platform
from datetime import timedelta

import apsw
import httpx
import pytest
from msgspec.structs import replace

from redrive import Permanent, Redrive, Submission, Temporary
from redrive.core.alert_rules import DEFAULT_RULES
from redrive.core.failure import Failure, Kind
from redrive.core.ports import Claim
from redrive.core.verdict import RetryAt, Settlement
from redrive.office.access import Role
from redrive.office.alerts.watch import AlertWatch
from redrive.testing import run_until_idle
from redrive.version import __version__
from redrive.web.server import serve
from tests.web.conftest import Login
from tests.web.problems import problem


async def _handle(payload: str) -> None:
    match payload:
        case "dead":
            raise Permanent("bounced, says the text alone")
        case "bounced":
            raise Permanent("no such user", code=550, scope="recipient")
        case "again":
            raise Temporary("busy", retry_after=timedelta(hours=1))


async def test_an_empty_outbox_is_healthy(viewer: httpx.AsyncClient) -> None:
    response = await viewer.get("/health/outbox")
    assert response.status_code == 200
    counts = ("pending", "processing", "published", "failed", "dlq", "bounced", "retryScheduled", "scheduled")
    assert response.json() == {
        "status": "healthy",
        "metrics": dict.fromkeys(counts, 0),
        "alerts": {"dlqHigh": False, "retryBacklog": False, "firing": []},
        "durability": "A",
        "versions": {
            "redrive": __version__,
            "python": platform.python_version(),
            "store": f"SQLite {apsw.sqlite_lib_version()}",
        },
    }


async def test_the_counts_are_of_all_queues(app: Redrive, viewer: httpx.AsyncClient) -> None:
    for queue in ("a", "b"):
        app.handler(queue)(_handle)
        await app.submit_many(queue, [Submission(word) for word in ("done", "dead", "dead", "again")])
    await run_until_idle(app)
    await app.submit("a", "later", delay=timedelta(hours=1))
    await app.submit("a", "now")
    await app.submit("b", "now")
    await app.store.claim(Claim("b", "token", 1, 30.0))
    answer = (await viewer.get("/health/outbox")).json()
    assert answer["metrics"] == {
        "pending": 1,
        "processing": 1,
        "published": 2,
        "failed": 0,
        "dlq": 4,
        "bounced": 0,
        "retryScheduled": 2,
        "scheduled": 1,
    }


async def test_more_than_100_dead_letters_are_unhealthy_and_still_ready(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    app.handler("a")(_handle)
    await app.submit_many("a", [Submission("dead")] * 100)
    await run_until_idle(app)
    assert (await viewer.get("/health/outbox")).json()["status"] == "healthy"
    await app.submit("a", "dead")
    await run_until_idle(app)
    response = await viewer.get("/health/outbox")
    assert response.status_code == 200
    assert response.json()["status"] == "unhealthy"
    assert response.json()["alerts"] == {"dlqHigh": True, "retryBacklog": False, "firing": []}
    assert (await viewer.get("/health/ready")).status_code == 200


async def test_bounces_are_counted_and_do_not_make_the_outbox_unhealthy(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    app.handler("a")(_handle)
    await app.submit_many("a", [Submission("bounced")] * 101 + [Submission("dead")] * 100)
    await run_until_idle(app)
    answer = (await viewer.get("/health/outbox")).json()
    assert (answer["metrics"]["dlq"], answer["metrics"]["bounced"]) == (201, 101)
    assert (answer["status"], answer["alerts"]["dlqHigh"]) == ("healthy", False)
    await app.submit("a", "dead")
    await run_until_idle(app)
    answer = (await viewer.get("/health/outbox")).json()
    assert (answer["status"], answer["alerts"]["dlqHigh"]) == ("unhealthy", True)


async def test_more_than_1000_waiting_retries_are_a_backlog(app: Redrive, viewer: httpx.AsyncClient) -> None:
    for queue, count in (("a", 1_000), ("b", 1)):
        await app.submit_many(queue, [Submission("again")] * count)
        claimed = await app.store.claim(Claim(queue, f"token {queue}", count, 30.0))
        now = app.store.now()
        later = RetryAt(now + 3_600_000, Failure(now, 1, Kind.TEMPORARY, "busy"))
        await app.store.settle([Settlement(delivery, later) for delivery in claimed.deliveries])
    answer = (await viewer.get("/health/outbox")).json()
    assert answer["metrics"]["retryScheduled"] == 1_001
    assert answer["alerts"] == {"dlqHigh": False, "retryBacklog": True, "firing": []}
    assert answer["status"] == "healthy"


async def test_what_fires_is_listed_and_a_critical_alert_is_unhealthy(
    app: Redrive, viewer: httpx.AsyncClient
) -> None:
    watch = AlertWatch(app.office)
    await app.submit("nobody-serves-this", "now")
    await watch.look()
    app.skew_ms += 61_000
    await watch.look()
    answer = (await viewer.get("/health/outbox")).json()
    assert answer["status"] == "unhealthy"
    assert [one["alert"] for one in answer["alerts"]["firing"]] == ["no_worker"]
    assert answer["alerts"]["firing"][0]["subject"] == "nobody-serves-this"
    assert (await viewer.get("/health/ready")).status_code == 200


async def test_the_limits_are_those_of_the_rules(app: Redrive, viewer: httpx.AsyncClient) -> None:
    app.handler("a")(_handle)
    rule = replace(DEFAULT_RULES["dlq_high"], above=1, clear=1)
    alerts = replace(app.settings.alerts, rules=(rule,))
    await app.submit_many("a", [Submission("dead")] * 2)
    await run_until_idle(app)
    assert (await viewer.get("/health/outbox")).json()["status"] == "healthy"
    app.configure(replace(app.settings, alerts=alerts))
    async with (
        serve(app, "127.0.0.1:0") as server,
        httpx.AsyncClient(base_url=server.url, headers=viewer.headers, timeout=60) as client,
    ):
        assert (await client.get("/health/outbox")).json()["alerts"]["dlqHigh"] is True


async def test_a_viewer_of_one_tenant_does_not_see_the_counts_of_all(login: Login) -> None:
    problem(await (await login(Role.VIEWER, "acme")).get("/health/outbox"), 403, "forbidden")


@pytest.mark.parametrize(("path", "status"), [("/health/live", "live"), ("/health/ready", "ready")])
async def test_liveness_and_readiness_need_no_key(
    stranger: httpx.AsyncClient, path: str, status: str
) -> None:
    response = await stranger.get(path)
    assert (response.status_code, response.json()) == (200, {"status": status})


async def test_a_process_whose_worker_is_not_ready_is_not_ready(app: Redrive) -> None:
    working = [False]
    async with (
        serve(app, "127.0.0.1:0", ready=lambda: working[0]) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        response = await client.get("/health/ready")
        assert "worker" in problem(response, 503, "unavailable")["detail"]
        assert response.headers["retry-after"] == "1"
        assert (await client.get("/health/live")).status_code == 200
        working[0] = True
        assert (await client.get("/health/ready")).status_code == 200


async def test_without_its_store_a_process_is_alive_and_not_ready(
    app: Redrive, stranger: httpx.AsyncClient
) -> None:
    await app.store.close()
    assert (await stranger.get("/health/live")).status_code == 200
    response = await stranger.get("/health/ready")
    problem(response, 503, "unavailable")
    assert int(response.headers["retry-after"]) >= 1
