"""Ledger.discard, cancel, purge and run_now: what people do to single messages, compare-and-set."""

from __future__ import annotations

from redrive.core.lanes import LaneChange, LaneState
from redrive.core.letters import Removal
from redrive.core.lifecycle import Move, State
from redrive.core.message import Delivery, Track
from redrive.core.ports import Cleanup, Status
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    account,
    append,
    claim,
    complete,
    counts,
    crash,
    dead,
    drain,
    entry,
    ids_of,
    keys,
    lane,
    letters,
    new_id,
    retry,
    submit,
    take,
    take_one,
)


def check_removal(store: Store, removal: Removal | None, move: Move, actor: str) -> None:
    assert removal is not None
    assert (removal.move, removal.actor) == (move, actor)
    assert abs(removal.at - store.now()) < 5_000


async def fresh(store: Store) -> Delivery:
    await submit(store, tenant="fresh")
    return await take_one(store)


async def test_discard_removes_the_letter_and_keeps_its_content(store: Store) -> None:
    (message_id,) = await dead(store, body=b"payload")
    (letter,) = await letters(store)
    assert await store.remove("orders", keys([message_id]), Move.DISCARD, actor="ann") == {message_id}
    found = await account(store, message_id)
    assert (found.state, found.message) == (State.REMOVED, letter.message)
    assert (found.failures, found.reason) == (letter.failures, letter.reason)
    check_removal(store, found.removal, Move.DISCARD, "ann")
    assert await letters(store) == []
    assert (await lane(store)).dead == 0
    assert (await counts(store)).dlq == 0


async def test_a_discarded_letter_survives_cleanup(bench: Bench, store: Store) -> None:
    (message_id,) = await dead(store, body=b"payload")
    await store.remove("orders", keys([message_id]), Move.DISCARD, actor="ann")
    bench.advance(365 * DAY_S)
    await store.cleanup(Cleanup(finished_before_at=store.now(), keep=0))
    assert (await account(store, message_id)).message.body == b"payload"


async def test_discard_moves_only_dead_letters_of_that_queue(store: Store) -> None:
    (elsewhere,) = await dead(store, queue="mail")
    (letter,) = await dead(store)
    held, waiting = await submit(store, 2)
    await take(store, 1)
    ids = [letter, letter, held, waiting, elsewhere, new_id()]
    assert await store.remove("orders", keys(ids), Move.DISCARD, actor="ann") == {letter}
    assert await store.remove("orders", keys(ids), Move.DISCARD, actor="bob") == set()
    check_removal(store, (await account(store, letter)).removal, Move.DISCARD, "ann")


async def test_a_discarded_letter_cannot_be_redriven(store: Store) -> None:
    ids = await dead(store)
    await store.remove("orders", keys(ids), Move.DISCARD, actor="ann")
    assert await store.redrive("orders", keys(ids), actor="ann") == set()
    assert await drain(store) == []


async def test_cancel_removes_a_waiting_message_and_its_body(store: Store) -> None:
    (message_id,) = await submit(store, body=b"payload")
    assert await store.cancel("orders", [message_id], actor="ann") == {message_id}
    found = await account(store, message_id)
    assert (found.state, found.message.body) == (State.REMOVED, b"")
    check_removal(store, found.removal, Move.CANCEL, "ann")
    assert await drain(store) == []
    assert (await lane(store)).waiting == 0


async def test_cancel_moves_only_waiting_messages_of_that_queue(store: Store) -> None:
    (letter,) = await dead(store)
    (elsewhere,) = await submit(store, queue="mail")
    held, waiting, later = await submit(store, 3)
    await take(store, 1)
    ids = [letter, elsewhere, held, waiting, later, waiting, new_id()]
    assert await store.cancel("orders", ids, actor="ann") == {waiting, later}
    assert await store.cancel("orders", ids, actor="ann") == set()
    states = [(await account(store, one)).state for one in (letter, elsewhere, held)]
    assert states == [State.DEAD, State.WAITING, State.CLAIMED]


async def test_cancelling_the_next_message_does_not_stop_its_lane(bench: Bench, store: Store) -> None:
    (soon,) = await submit(store, delay_s=MINUTE_S)
    (late,) = await submit(store, delay_s=10 * MINUTE_S)
    await store.cancel("orders", [soon], actor="ann")
    bench.advance(5 * MINUTE_S)
    assert await take(store) == []
    bench.advance(6 * MINUTE_S)
    assert ids_of(await take(store)) == [late]


async def test_cancelling_a_whole_lane_leaves_the_turns_of_others(store: Store) -> None:
    ids = await submit(store, 4, tenant="a")
    others = await submit(store, 4, tenant="b")
    await store.cancel("orders", ids, actor="ann")
    assert ids_of(await drain(store)) == others


async def test_purge_cancels_everything_that_waits_in_pages(store: Store) -> None:
    held = await submit(store)
    await take(store)
    await crash(store, await fresh(store))
    await submit(store, 3, tenant="paused")
    await store.set_lane("orders", "paused", LaneChange(state=LaneState.PAUSED))
    await submit(store, 2, delay_s=DAY_S)
    await retry(store, await fresh(store), delay_s=MINUTE_S)
    assert [await store.purge("orders", actor="ann", limit=3) for _ in range(4)] == [3, 3, 1, 0]
    found = await counts(store)
    assert (found.pending, found.scheduled, found.retry_scheduled, found.suspects) == (0, 0, 0, 0)
    assert found.processing == 1
    assert (await account(store, held[0])).state is State.CLAIMED
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.suspects, claimed.next_at) == ((), False, None)


async def test_purge_says_who_did_it_and_keeps_to_its_queue(store: Store) -> None:
    (message_id,) = await submit(store, body=b"payload")
    (elsewhere,) = await submit(store, queue="mail")
    (letter,) = await dead(store, queue="third")
    assert await store.purge("orders", actor="ann") == 1
    assert await store.purge("third", actor="ann") == 0
    found = await account(store, message_id)
    assert (found.state, found.message.body) == (State.REMOVED, b"")
    check_removal(store, found.removal, Move.PURGE, "ann")
    assert (await account(store, elsewhere)).state is State.WAITING
    assert (await account(store, letter)).state is State.DEAD


async def test_purge_of_one_tenant_leaves_the_others_waiting(store: Store) -> None:
    await crash(store, await fresh(store))
    await submit(store, 3, tenant="fresh", dedupe=None)
    await submit(store, 2, tenant="fresh", delay_s=DAY_S, track=Track.BULK)
    others = await submit(store, 2, tenant="other")
    purged = [await store.purge("orders", actor="ann", tenant="fresh", limit=4) for _ in range(3)]
    assert purged == [4, 2, 0]
    assert (await lane(store, "fresh")).waiting == 0
    assert ids_of(await drain(store)) == others
    assert await store.purge("orders", actor="ann", tenant="nobody") == 0


async def test_purge_of_one_tenant_frees_its_dedupe_keys(store: Store) -> None:
    await submit(store, dedupe="once")
    assert await store.purge("orders", actor="ann", tenant="acme") == 1
    (again,) = await append(store, entry(store, dedupe="once", body=b"other"))
    assert again.status is Status.ACCEPTED


async def test_run_now_makes_later_messages_due(bench: Bench, store: Store) -> None:
    scheduled, retried = await submit(store, delay_s=DAY_S), await submit(store)
    await retry(store, await take_one(store), delay_s=DAY_S)
    assert await take(store) == []
    ids = scheduled + retried
    assert await store.run_now("orders", ids) == set(ids)
    for message_id in ids:
        assert abs((await account(store, message_id)).progress.due_at - store.now()) < 5_000
    bench.advance(1)
    assert sorted(ids_of(await drain(store))) == sorted(ids)


async def test_run_now_moves_only_waiting_messages_of_that_queue(store: Store) -> None:
    (letter,) = await dead(store)
    (held,) = await submit(store)
    delivery = await take_one(store)
    (elsewhere,) = await submit(store, queue="mail", delay_s=DAY_S)
    assert await store.run_now("orders", [letter, held, elsewhere, new_id()]) == set()
    assert await take(store, queue="mail") == []
    assert await complete(store, delivery) == set()


async def test_run_now_in_a_stopped_lane_waits_for_its_resumption(store: Store) -> None:
    ids = await submit(store, delay_s=DAY_S)
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    assert await store.run_now("orders", ids) == set(ids)
    assert await take(store) == []
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    assert ids_of(await take(store)) == ids


async def test_moving_no_ids_moves_nothing(store: Store) -> None:
    assert await store.redrive("orders", keys([]), actor="ann") == set()
    assert await store.remove("orders", keys([]), Move.DISCARD, actor="ann") == set()
    assert await store.cancel("orders", [], actor="ann") == set()
    assert await store.run_now("orders", []) == set()
    assert await store.purge("orders", actor="ann") == 0
