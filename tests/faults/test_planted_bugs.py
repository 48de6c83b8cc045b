"""The checks are good: with each bug planted into the child they report it, without it they are silent."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.ledger import Plan
from tests.faults.moved import told
from tests.faults.processes import Child, Site, open_site
from tests.faults.recovery import bury
from tests.faults.stale import stop, stop_past_lease
from tests.office.desks import desk, redrive

LEASE_S = 1.0


def _judge(violations: list[str], kind: str, caught: bool) -> None:
    """The invariant of this kind is broken, or none is."""
    if caught:
        assert any(violation.startswith(kind) for violation in violations), violations
    else:
        assert violations == []


@pytest.mark.parametrize(("plant", "caught"), [(None, False), ("settle_without_token", True)])
async def test_a_settle_without_its_token_check_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, caught: bool
) -> None:
    """The stale worker settles while another holds the message, which stands still meanwhile."""
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        stale = await site.start_worker(lease_s=LEASE_S, **_planted(plant))
        # It blocks its loop, so that it settles before it can hear that its lease is lost.
        message_id = await site.submit(Plan(gate=str(gate), act="block"))
        await site.wait_for("begin", message_id)
        await stop_past_lease(site, stale)
        other = await site.start_worker(lease_s=30)
        await site.wait_for("begin", message_id, count=2)
        await stop(site, other)
        gate.touch()
        stale.signal(signal.SIGCONT)
        await site.wait_until(lambda: _has_settled(site, stale), "the stale worker settles, or is refused")
        other.signal(signal.SIGCONT)
        await site.wait_until(lambda: _has_settled(site, other), "the other one does")
        _judge(await site.violations(), "stolen", caught)


def _has_settled(site: Site, worker: Child) -> bool:
    told = site.handed("completed") + site.handed("refused")
    return any(line.pid == worker.pid for line in told)


@pytest.mark.parametrize(("plant", "caught"), [(None, False), ("count_attempt_late", True)])
async def test_an_attempt_counted_late_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, caught: bool
) -> None:
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        worker = await site.start_worker(lease_s=LEASE_S, **_planted(plant))
        message_id = await site.submit(Plan(fails=2, gate=str(gate), gate_after=1))
        await _begun_and_not_ended(site, message_id)
        await _kill(site, worker)
        gate.touch()
        await site.start_worker(lease_s=LEASE_S, **_planted(plant))
        await site.wait_idle()
        _judge(await site.violations(), "attempts", caught)


async def _begun_and_not_ended(site: Site, message_id: str) -> None:
    def begun() -> bool:
        return len(site.handed("begin", message_id)) > len(site.handed("end", message_id)) >= 1

    await site.wait_until(begun, "an attempt is under way")


@pytest.mark.parametrize(("plant", "caught"), [(None, False), ("settle_before_handler", True)])
async def test_a_settle_before_the_handler_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, caught: bool
) -> None:
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        worker = await site.start_worker(lease_s=LEASE_S, **_planted(plant))
        busy = await site.submit(Plan(gate=str(gate)))
        await site.wait_for("begin", busy)
        if plant is not None:
            await site.wait_for("completed", busy)
        await _kill(site, worker)
        gate.touch()
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_idle()
        _judge(await site.violations(), "undelivered", caught)


@pytest.mark.parametrize(("plant", "caught"), [(None, False), ("accept_before_commit", True)])
async def test_an_accept_before_the_commit_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, caught: bool
) -> None:
    async with open_site(tmp_path, store_url) as site:
        submitter = site.start(
            "submit", count=40, die="before:commit:3", seed=1, mild=True, **_planted(plant)
        )
        assert await submitter.ended() == -signal.SIGKILL, submitter.errors
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_idle()
        _judge(await site.violations(), "lost", caught)


@pytest.mark.parametrize(("plant", "caught"), [(None, False), ("dedupe_key_first", True)])
async def test_a_dedupe_key_written_first_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, caught: bool
) -> None:
    """One task, every message with a key: killed between the key and the message, then asked again."""
    async with open_site(tmp_path, store_url) as site:
        options = {"tasks": 1, "count": 10, "mild": True, "dedupe": 1.0}
        submitter = site.start("submit", die="before:commit:4", seed=1, **options, **_planted(plant))
        assert await submitter.ended() == -signal.SIGKILL, submitter.errors
        again = site.start("submit", repeat=True, **options | {"count": 0})
        assert await again.ended() == 0, again.errors
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_idle()
        _judge(await site.violations(), "lost", caught)


@pytest.mark.parametrize(("plant", "caught"), [(None, False), ("reclaim_live_leases", True)])
async def test_a_sweep_that_takes_live_leases_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, caught: bool
) -> None:
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        await site.start_worker(lease_s=30)
        message_id = await site.submit(Plan(gate=str(gate)))
        await site.wait_for("begin", message_id)
        sweeper = await site.start_worker(lease_s=30, **_planted(plant))
        if plant is not None:
            await site.wait_for("begin", message_id, count=2)
        gate.touch()
        await site.wait_idle()
        assert sweeper.running
        _judge(await site.violations(), "repeated", caught)


@pytest.mark.parametrize(
    ("plant", "point", "caught"),
    [(None, "after:redrive:1", False), ("redrive_deletes_first", "after:remove:1", True)],
)
async def test_a_redrive_that_deletes_first_is_caught(
    tmp_path: Path, store_url: str, plant: str | None, point: str, caught: bool
) -> None:
    """The worker that conducts the operation dies when its letters are moved, or only taken away."""
    async with open_site(tmp_path, store_url) as site:
        await bury(site, 20, Plan(permanent=1))
        started = await desk(site.app.store).start(redrive())
        options = {"lease_s": LEASE_S, "conductor_lease_s": LEASE_S, "die": point}
        worker = site.start("work", **options, **_planted(plant))
        assert await worker.ended() == -signal.SIGKILL, worker.errors
        await site.note_kill()
        await site.start_worker(lease_s=LEASE_S, conductor_lease_s=LEASE_S)
        await site.wait_until(lambda: told(site, started.id), "the operation ends")
        await site.wait_idle()
        _judge(await site.violations(), "state", caught)


def _planted(plant: str | None) -> dict[str, object]:
    return {} if plant is None else {"plant": plant}


async def _kill(site: Site, worker: Child) -> None:
    worker.kill()
    await site.note_kill()
