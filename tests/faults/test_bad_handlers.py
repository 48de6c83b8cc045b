"""Handlers that hang, block the event loop, overrun in a thread or kill their process: nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path

from redrive.core.failure import Kind
from redrive.core.lifecycle import State
from redrive.core.verdict import CRASH_LIMIT, Reason
from tests.faults.handlers import PLAIN
from tests.faults.ledger import Plan
from tests.faults.processes import Site, open_site
from tests.faults.stale import STALE_S, stop_past_lease

LEASE_S = 1.5
SHORT_S = 0.6
BLOCKED_S = 1.0
"""Four of these are over before a call to Redis that was under way times out."""

AHEAD_S = 60.0
"""A worker that is to claim this far ahead claims more than it runs."""


async def test_a_handler_that_hangs_fails_temporarily_at_its_deadline(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        message_id = await site.submit(Plan(act="hang"))
        await site.start_worker(lease_s=5, deadline_s=0.3)
        await site.wait_for("retried", message_id)
        account = await site.app.store.get(message_id)
        assert account is not None
        assert account.failures[0].kind is Kind.TEMPORARY
        assert "deadline" in account.failures[0].reason
        progress = await site.wait_state(message_id, State.DEAD)
        account = await site.app.store.get(message_id)
        assert account is not None
        assert account.reason is Reason.EXHAUSTED
        assert progress.attempts == len(site.handed("begin", message_id)) == len(account.failures)


async def test_a_handler_that_blocks_the_loop_past_its_lease_keeps_it(tmp_path: Path, store_url: str) -> None:
    """The lease is extended from a thread of its own, so another worker has nothing to take."""
    async with open_site(tmp_path, store_url) as site:
        await site.start_worker(lease_s=BLOCKED_S)
        message_id = await site.submit(Plan(act="block", work_s=4 * BLOCKED_S))
        await site.wait_for("begin", message_id)
        await site.start_worker(lease_s=BLOCKED_S)
        await site.wait_state(message_id, State.DONE)
        assert await site.violations() == []
        assert len(site.handed("begin", message_id)) == 1
        assert site.handed("refused") == []


async def test_a_handler_that_kills_its_process_is_buried_and_takes_no_neighbour_with_it(
    tmp_path: Path, store_url: str
) -> None:
    """One shared crash and two lone ones; each neighbour is handed over again at most once."""
    async with open_site(tmp_path, store_url) as site:
        before = [await site.submit(Plan(work_s=0.2)) for _ in range(3)]
        killer = await site.submit(Plan(act="exit"))
        after = [await site.submit(Plan()) for _ in range(8)]
        for _ in range(CRASH_LIMIT):
            worker = site.start("work", lease_s=LEASE_S)
            assert await worker.ended() == 3, worker.errors
            await site.note_kill()
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_state(killer, State.DEAD)
        await site.wait_idle()
        account = await site.app.store.get(killer)
        assert account is not None
        assert account.reason is Reason.WORKER_LOST
        assert len(site.handed("begin", killer)) == CRASH_LIMIT
        assert await site.violations() == []
        for neighbour in before + after:
            assert (await site.progress(neighbour)).state is State.DONE
            assert len(site.handed("begin", neighbour)) <= 2


async def test_a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes(
    tmp_path: Path, store_url: str
) -> None:
    """Another has taken over meanwhile, on a queue younger than both workers; the stale settle is told."""
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        stale = await site.start_worker(lease_s=STALE_S)
        message_id = await site.submit(Plan(gate=str(gate)))
        await site.wait_for("begin", message_id)
        other = await site.start_worker(lease_s=STALE_S)
        await stop_past_lease(site, stale)
        await site.wait_for("begin", message_id, count=2)
        gate.touch()
        await site.wait_for("completed", message_id)
        stale.signal(signal.SIGCONT)
        refused = await site.wait_for("refused", message_id)
        assert [line.pid for line in refused] == [stale.pid]
        assert [line.pid for line in site.handed("completed", message_id)] == [other.pid]
        assert await site.violations() == []


async def test_a_worker_that_lost_its_leases_goes_on_and_runs_suspects_too(
    tmp_path: Path, store_url: str
) -> None:
    """A suspect needs the process to itself: nothing of the lost leases may still count as held."""
    async with open_site(tmp_path, store_url) as site:
        gate, second_gate = tmp_path / "gate", tmp_path / "second"
        stale = await site.start_worker(lease_s=STALE_S, concurrency=2, prefetch_s=AHEAD_S)
        ids = [await site.submit(Plan(gate=str(gate))) for _ in range(10)]
        await _wait_claimed(site, ids)
        await stop_past_lease(site, stale)
        other = await site.start_worker(lease_s=LEASE_S)
        gate.touch()
        await site.wait_idle()
        suspect = await site.submit(Plan(gate=str(second_gate)))
        await site.wait_for("begin", suspect)
        other.kill()
        await site.note_kill()
        second_gate.touch()
        stale.signal(signal.SIGCONT)
        await site.wait_state(suspect, State.DONE)
        assert [line.pid for line in site.handed("begin", suspect)] == [other.pid, stale.pid]
        assert await site.violations() == []


async def test_a_settle_whose_answer_is_late_is_no_lost_lease(tmp_path: Path, store_url: str) -> None:
    """Between the commit and its answer the lease is gone from the store because nothing is left of it."""
    async with open_site(tmp_path, store_url) as site:
        await site.start_worker(lease_s=SHORT_S, plant="answer_settle_late")
        message_id = await site.submit(Plan())
        await site.wait_for("completed", message_id)
        assert await site.violations() == []
        assert site.handed("lease lost") == []


async def test_a_settle_whose_answer_is_lost_is_asked_again_and_told_for_what_it_is(
    tmp_path: Path, store_url: str
) -> None:
    """The repeat is refused because the first try was applied, while nobody else can have the lease."""
    async with open_site(tmp_path, store_url) as site:
        await site.start_worker(lease_s=30, plant="lose_settle_answers")
        good, bad = await site.submit(Plan(fails=1)), await site.submit(Plan(permanent=1))
        await site.wait_state(good, State.DONE)
        await site.wait_state(bad, State.DEAD)
        await site.wait_for("completed", good)
        await site.wait_for("buried", bad)
        assert await site.violations() == []
        assert site.handed("refused") == []


async def test_leases_of_a_new_queue_return_as_fast_as_of_an_old_one(tmp_path: Path, store_url: str) -> None:
    """Both workers are older than the queue; one of them dies."""
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        workers = [await site.start_worker(lease_s=LEASE_S) for _ in range(2)]
        message_id = await site.submit(Plan(gate=str(gate)))
        begun = (await site.wait_for("begin", message_id))[0]
        next(worker for worker in workers if worker.pid == begun.pid).kill()
        await site.note_kill()
        gate.touch()
        with site.within(LEASE_S + 1 + 1, "it is done"):
            await site.wait_state(message_id, State.DONE)
        assert await site.violations() == []


async def test_a_def_handler_past_its_deadline_keeps_its_slot_and_lease_until_its_thread_ends(
    tmp_path: Path, store_url: str
) -> None:
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        first = await site.start_worker(lease_s=LEASE_S, deadline_s=0.3, concurrency=1)
        late = await site.submit(Plan(gate=str(gate)), PLAIN)
        await site.wait_for("overran", late)
        until_at = await _lease_end(site, late)
        second = await site.submit(Plan(), PLAIN)
        other = await site.submit(Plan(gate=str(gate)))
        await site.wait_for("retried", other)
        assert site.handed("begin", second) == [], "its slot was given away"
        await site.start_worker(lease_s=LEASE_S, deadline_s=0.3, concurrency=1)
        await site.wait_state(second, State.DONE)
        await site.wait_until(lambda: _is_held_past(site, late, until_at), "its lease is extended")
        assert (await site.progress(late)).state is State.CLAIMED
        gate.touch()
        await site.wait_idle()
        completed = await site.wait_for("completed", late)
        assert [line.pid for line in site.handed("begin", late)] == [first.pid]
        assert [line.pid for line in completed] == [first.pid]
        assert site.handed("refused") == []


async def test_sigterm_lets_running_attempts_end_and_gives_the_rest_back_uncounted(
    tmp_path: Path, store_url: str
) -> None:
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        worker = await site.start_worker(lease_s=5, concurrency=2, drain_s=10, prefetch_s=AHEAD_S)
        ids = [await site.submit(Plan(gate=str(gate))) for _ in range(10)]
        await _wait_claimed(site, ids)
        worker.signal(signal.SIGTERM)
        await site.wait_for("released", count=8)
        gate.touch()
        assert await worker.ended(10) == 0, worker.errors
        states = {each: await site.progress(each) for each in ids}
        begun = {line.id for line in site.handed("begin")} & states.keys()
        assert {each for each, progress in states.items() if progress.state is State.DONE} == begun
        assert len(begun) == 2
        for each in states.keys() - begun:
            assert states[each].state is State.WAITING
            assert (states[each].attempts, states[each].crashes) == (0, 0)
        assert len(site.handed("stopped")) == 1


async def _lease_end(site: Site, message_id: str) -> int:
    account = await site.app.store.get(message_id)
    assert account is not None
    return account.lease_until_at or 0


async def _is_held_past(site: Site, message_id: str, until_at: int) -> bool:
    return await _lease_end(site, message_id) > until_at


async def _wait_claimed(site: Site, ids: list[str]) -> None:
    for each in ids:
        await site.wait_state(each, State.CLAIMED)


async def test_sigterm_gives_back_what_does_not_end_in_the_drain_time(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        message_id = await site.submit(Plan(act="hang"))
        worker = await site.start_worker(lease_s=5, drain_s=0.3)
        await site.wait_for("begin", message_id)
        with site.within(5, "it ends"):
            worker.signal(signal.SIGTERM)
            assert await worker.ended() == 0, worker.errors
        progress = await site.progress(message_id)
        assert progress.state is State.WAITING
        assert (progress.attempts, progress.crashes) == (0, 0)
