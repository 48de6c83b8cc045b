"""The line that answers "is anything wrong?": it never says that all is well while something is not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from redrive import Redrive, RetryPolicy, Temporary
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.pages import overview
from redrive.web.server import serve
from tests.office.alerts.desk import Watcher
from tests.pages.forms import SAME_ORIGIN, form_token, sign_in
from tests.pages.shop import make_app
from tests.waiting import wait_until

ACTOR = Actor("test", "test")
SLOW = "slow"
PATIENCE_S = 30.0
STATUS = re.compile(r'<section class="status (?P<tone>\w+)".*?</section>', re.DOTALL)
OLDEST = re.compile(r"<dt>Oldest waiting</dt><dd>(?P<said>.*?)</dd>")


@dataclass
class Desk:
    """A served app with one message that waits for its retry, and someone who looks at it."""

    app: Redrive
    client: httpx.AsyncClient

    async def status(self) -> tuple[str, str]:
        """The tone and the words of the line."""
        page = await self.client.get("/")
        found = STATUS.search(page.text)
        assert found is not None, page.text[:500]
        return found["tone"], " ".join(re.sub(r"<[^>]*>", " ", found[0]).split())


@asynccontextmanager
async def desk(folder: Path, tenant: str | None = None, rule: str | None = None) -> AsyncIterator[Desk]:
    """With a `rule`: one that fires for a single message that waits for its retry, and is such."""
    if rule is not None:
        text = f"[alerts.retry_backlog]\nabove = 0\n{rule}\n"
        await asyncio.to_thread((folder / "redrive.toml").write_text, text)
    app = make_app(folder, set())

    @app.handler(SLOW, retry=RetryPolicy(attempts=3, base_s=3600, cap_s=3600))
    async def slow(order: dict[str, int]) -> None:
        raise Temporary("503 not yet")

    async def retried() -> bool:
        return sum(one.retry_scheduled for one in await app.store.queues()) == 1

    async with (
        app,
        serve(app, "127.0.0.1:0") as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        working = asyncio.create_task(app.run(signals=False))
        await app.submit(SLOW, {"order": 1}, tenant="acme")
        await wait_until(retried, PATIENCE_S, "it waits for its retry")
        _, key = await Access(app.store, ACTOR).create(Role.OPERATOR, tenant)
        await sign_in(client, key)
        try:
            yield Desk(app, client)
        finally:
            working.cancel()
            await asyncio.wait([working])


async def fire(app: Redrive) -> None:
    """Have the rules of the app judge what is there, as its worker does now and then."""
    watcher = Watcher(app.store, app.settings.alerts)
    await watcher.look()
    await watcher.close()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_FRESH_S", 0.0)
    monkeypatch.setattr(overview, "_STALE_S", 0.0)


async def test_all_is_well_while_a_message_waits_for_its_retry(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await fire(at.app)
        said = "All is well 0 delivered in the last hour, nothing is dead"
        assert await at.status() == ("good", said)


async def test_an_alert_that_fires_is_said_although_nothing_is_dead(tmp_path: Path) -> None:
    async with desk(tmp_path, rule="") as at:
        await fire(at.app)
        assert await at.status() == ("warn", "Look into this The alert retry_backlog is firing")


async def test_a_critical_alert_needs_someone_now(tmp_path: Path) -> None:
    async with desk(tmp_path, rule='severity = "critical"') as at:
        await fire(at.app)
        said = "This needs someone now The critical alert retry_backlog is firing"
        assert await at.status() == ("bad", said)


async def test_an_alert_that_only_informs_is_no_concern(tmp_path: Path) -> None:
    async with desk(tmp_path, rule='severity = "info"') as at:
        await fire(at.app)
        assert (await at.status())[0] == "good"


async def test_an_alert_that_somebody_silenced_is_no_concern(tmp_path: Path) -> None:
    async with desk(tmp_path, rule="") as at:
        await fire(at.app)
        alerts = at.app.office.acting(ACTOR).alerts
        await alerts.silence("retry_backlog", None, timedelta(hours=1), "we know")
        assert (await at.status())[0] == "good"


async def test_who_is_bound_to_a_tenant_is_told_of_its_paused_queue(tmp_path: Path) -> None:
    async with desk(tmp_path, "acme") as at:
        assert await at.status() == ("good", "All is well")
        await at.app.office.acting(ACTOR).tenants.pause("acme", SLOW)
        assert await at.status() == ("warn", f"Look into this {SLOW} is paused")


async def test_who_is_bound_to_a_tenant_is_told_of_a_queue_that_is_paused_for_all(tmp_path: Path) -> None:
    async with desk(tmp_path, "acme") as at:
        await at.app.office.acting(ACTOR).queues.pause(SLOW)
        assert await at.status() == ("warn", f"Look into this {SLOW} is paused")


async def test_what_is_scheduled_for_later_is_not_the_oldest_waiting(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        page = (await at.client.get("/")).text
        found = OLDEST.search(page)
        assert found is not None
        assert found["said"] == "none"
        row = (await at.client.get("/queues")).text.split(f'href="/queues/{SLOW}"')[1].split("</tr>")[0]
        assert re.search(r'data-label="Oldest waiting"><span class="soft">', row), row


async def test_an_alert_that_is_silenced_already_offers_no_other_silence(tmp_path: Path) -> None:
    async with desk(tmp_path, rule='runbook = "https://wiki.example/backlog"') as at:
        await fire(at.app)
        page = await at.client.get("/alerts")
        assert "Silence for 1 h" in page.text
        assert 'href="https://wiki.example/backlog"' in page.text
        form = {"token": form_token(page), "verb": "silence", "alert": "retry_backlog", "hours": "1"}
        assert (await at.client.post("/alerts", data=form, headers=SAME_ORIGIN)).status_code == 303
        page = await at.client.get("/alerts")
        assert "Silence for 1 h" not in page.text
        assert "silenced" in page.text


async def test_a_runbook_that_is_no_web_address_is_no_link(tmp_path: Path) -> None:
    async with desk(tmp_path, rule='runbook = "javascript:alert(1)"') as at:
        await fire(at.app)
        page = (await at.client.get("/alerts")).text
        assert "javascript:alert(1)" in page
        assert 'href="javascript:' not in page
