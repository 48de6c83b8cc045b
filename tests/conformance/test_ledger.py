"""Ledger.get, letters and bury: what is known of a message, and dead letters from elsewhere."""

from __future__ import annotations

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import DeadLetter, Redriven, RedriveResult
from redrive.core.lifecycle import Move, State
from redrive.core.message import Message, Progress, Track
from redrive.core.store import Store
from redrive.core.verdict import Reason
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    bury,
    complete,
    counts,
    dead,
    drain,
    ids_of,
    keys,
    lane,
    letters,
    new_id,
    submit,
    take,
    take_one,
)


def letter(store: Store, *, queue: str = "orders", generation: int = 1) -> DeadLetter:
    """A dead letter as another system would hand it in."""
    at = store.now() - 3_600_000
    failures = (
        Failure(at, 1, Kind.TEMPORARY, "connection refused", "ECONN", Scope.DESTINATION, "a" * 16, "Trace 1"),
        Failure(at + 1_000, 2, Kind.PERMANENT, "no such user", "550", Scope.RECIPIENT, "b" * 16, None),
    )
    return DeadLetter(
        Message(new_id(), queue, "acme", b"\xffraw", at, 60.0, Track.BULK, None, {"Trace": "1"}),
        Progress(State.DEAD, at, at + 60_000, attempts=2, generation=generation, operation="op-1"),
        Reason.BOUNCED,
        at + 2_000,
        at,
        "b" * 16,
        failures,
        (Redriven(at + 500, 1, "ann", "op-1", RedriveResult.DEAD),),
    )


async def test_every_state_has_an_account(store: Store) -> None:
    done, gone, letter_id, held, waiting = await submit(store, 5)
    deliveries = await take(store, 4)
    await complete(store, deliveries[0])
    await bury(store, deliveries[2])
    await store.cancel("orders", [waiting], actor="ann")
    await bury(store, deliveries[1])
    await store.remove("orders", keys([gone]), Move.DISCARD, actor="ann")
    states = [(await account(store, one)).state for one in (done, gone, letter_id, held, waiting)]
    assert states == [State.DONE, State.REMOVED, State.DEAD, State.CLAIMED, State.REMOVED]


async def test_an_account_is_found_in_every_queue(store: Store) -> None:
    for queue in ("a", "b", "c"):
        (message_id,) = await submit(store, queue=queue)
        assert (await account(store, message_id)).message.queue == queue


async def test_letters_come_oldest_first_in_pages(bench: Bench, store: Store) -> None:
    ids: list[str] = []
    for _ in range(7):
        ids += await dead(store)
        bench.advance(1)
    first = await store.letters("orders", limit=3)
    second = await store.letters("orders", after=first.cursor, limit=3)
    third = await store.letters("orders", after=second.cursor, limit=3)
    pages = [[one.message.id for one in page.letters] for page in (first, second, third)]
    assert pages == [ids[:3], ids[3:6], ids[6:]]
    assert third.cursor is None


async def test_letters_that_died_together_are_all_listed_once(store: Store) -> None:
    ids = await submit(store, 25)
    await bury(store, *await drain(store))
    found: list[str] = []
    page = await store.letters("orders", limit=4)
    found += [one.message.id for one in page.letters]
    while page.cursor is not None:
        page = await store.letters("orders", after=page.cursor, limit=4)
        found += [one.message.id for one in page.letters]
    assert sorted(found) == sorted(ids)


async def test_pages_are_stable_while_letters_come_and_go(bench: Bench, store: Store) -> None:
    ids: list[str] = []
    for _ in range(6):
        ids += await dead(store)
        bench.advance(1)
    first = await store.letters("orders", limit=3)
    await store.remove("orders", keys([ids[0], ids[2]]), Move.DISCARD, actor="ann")
    await store.redrive("orders", keys([ids[4]]), actor="ann")
    await complete(store, *await drain(store))
    ids += await dead(store)
    rest = await store.letters("orders", after=first.cursor)
    assert [one.message.id for one in rest.letters] == [ids[3], ids[5], ids[6]]


async def test_letters_of_all_queues_come_oldest_first(bench: Bench, store: Store) -> None:
    ids: list[str] = []
    for queue in ("b", "a", "c", "a", "b"):
        ids += await dead(store, queue=queue)
        bench.advance(1)
    assert [one.message.id for one in await letters(store, None)] == ids
    assert [one.message.id for one in await letters(store, "a")] == [ids[1], ids[3]]
    first = await store.letters(None, limit=2)
    second = await store.letters(None, after=first.cursor, limit=2)
    found = [one.message.id for page in (first, second) for one in page.letters]
    assert found == ids[:4]


async def test_no_letters_is_an_empty_page(store: Store) -> None:
    await submit(store)
    for queue in ("orders", "unknown", None):
        page = await store.letters(queue)
        assert (page.letters, page.cursor) == ((), None)


async def test_a_letter_from_elsewhere_is_taken_in_as_it_is(store: Store) -> None:
    given = letter(store)
    assert await store.bury([given]) == {given.message.id}
    assert await letters(store) == [given]
    found = await account(store, given.message.id)
    assert (found.message, found.progress, found.reason) == (given.message, given.progress, given.reason)
    assert (found.failures, found.redrives) == (given.failures, given.redrives)
    assert (await lane(store)).dead == 1
    assert (await counts(store)).dlq == 1


async def test_a_letter_taken_in_twice_is_there_once(store: Store) -> None:
    first, second = letter(store), letter(store)
    assert await store.bury([first]) == {first.message.id}
    assert await store.bury([first, second]) == {second.message.id}
    assert len(await letters(store)) == 2
    assert (await lane(store)).dead == 2


async def test_a_letter_twice_in_one_call_is_there_once(store: Store) -> None:
    given = letter(store)
    assert await store.bury([given, given]) == {given.message.id}
    assert (await lane(store)).dead == 1


async def test_a_letter_whose_id_is_known_in_any_state_is_skipped(store: Store) -> None:
    done, held, waiting = await submit(store, 3)
    first, _ = await take(store, 2)
    await complete(store, first)
    for message_id in (done, held, waiting):
        before = await account(store, message_id)
        one = letter(store)
        message = Message(message_id, "orders", "acme", b"other", 0, 60.0)
        known = DeadLetter(message, one.progress, one.reason, one.died_at, one.first_died_at, one.fingerprint)
        assert await store.bury([known]) == set()
        assert await account(store, message_id) == before
    assert await letters(store) == []


async def test_letters_from_elsewhere_may_be_of_several_queues(store: Store) -> None:
    given = [letter(store, queue="a"), letter(store, queue="b")]
    assert await store.bury(given) == {one.message.id for one in given}
    assert [one.queue for one in await store.queues()] == ["a", "b"]


async def test_a_letter_from_elsewhere_can_be_redriven(bench: Bench, store: Store) -> None:
    given = letter(store)
    await store.bury([given])
    assert await store.redrive("orders", keys([given.message.id]), actor="bob") == {given.message.id}
    delivery = await take_one(store)
    assert (delivery.message.body, delivery.progress.generation) == (b"\xffraw", 2)
    assert delivery.progress.attempts == 1
    bench.advance(MINUTE_S)
    await complete(store, delivery)
    results = [one.result for one in (await account(store, given.message.id)).redrives]
    assert results == [RedriveResult.DEAD, RedriveResult.DONE]


async def test_burying_nothing_takes_nothing_in(store: Store) -> None:
    assert await store.bury([]) == set()
    assert ids_of(await drain(store)) == []
