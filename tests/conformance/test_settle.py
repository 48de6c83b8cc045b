"""Source.settle: each verdict, guarded by the token of the delivery it is for."""

from __future__ import annotations

import pytest

from redrive.core.failure import Kind
from redrive.core.lifecycle import State
from redrive.core.message import Track
from redrive.core.store import Store
from redrive.core.verdict import Bury, Complete, Reason, Release, RetryAt, Settlement
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    bury,
    complete,
    counts,
    drain,
    failure,
    ids_of,
    lane,
    letters,
    new_token,
    release,
    retry,
    settle,
    soon,
    submit,
    take,
    take_one,
)


async def test_complete_ends_the_life_and_the_body_goes(store: Store) -> None:
    (message_id,) = await submit(store, body=b"secret", track=Track.BULK)
    delivery = await take_one(store)
    assert await complete(store, delivery) == set()
    found = await account(store, message_id)
    assert (found.state, found.message.body, found.progress.attempts) == (State.DONE, b"", 1)
    assert (found.message.tenant, found.message.track) == ("acme", Track.BULK)
    assert found.finished_at is not None
    assert abs(found.finished_at - store.now()) < 5_000
    assert (found.lease_until_at, found.removal, found.reason) == (None, None, None)
    assert await drain(store) == []


async def test_a_retry_waits_and_keeps_its_failure_and_attempt(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    verdict = RetryAt(soon(store, 10 * MINUTE_S), failure(delivery))
    assert await settle(store, verdict, delivery) == set()
    found = await account(store, message_id)
    assert (found.state, found.progress.attempts) == (State.WAITING, 1)
    assert (found.progress.due_at, found.failures) == (verdict.due_at, (verdict.failure,))
    assert found.lease_until_at is None
    assert await take(store) == []
    bench.advance(11 * MINUTE_S)
    assert (await take_one(store)).progress.attempts == 2


async def test_a_release_gives_the_attempt_back_and_records_nothing(store: Store) -> None:
    (message_id,) = await submit(store)
    assert await release(store, await take_one(store)) == set()
    found = await account(store, message_id)
    assert (found.state, found.progress.attempts, found.progress.crashes) == (State.WAITING, 0, 0)
    assert found.failures == ()
    assert (await take_one(store)).progress.attempts == 1


async def test_a_release_waits_until_its_instant(bench: Bench, store: Store) -> None:
    await submit(store)
    await release(store, await take_one(store), delay_s=10 * MINUTE_S)
    assert await take(store) == []
    bench.advance(11 * MINUTE_S)
    assert len(await take(store)) == 1


async def test_bury_makes_a_dead_letter_with_everything(store: Store) -> None:
    (message_id,) = await submit(store, body=b"payload")
    delivery = await take_one(store)
    last = failure(delivery, "no such order", kind=Kind.PERMANENT)
    assert await settle(store, Bury(Reason.PERMANENT, last), delivery) == set()
    (letter,) = await letters(store)
    assert letter.message == delivery.message
    assert (letter.progress.state, letter.progress.attempts) == (State.DEAD, 1)
    assert (letter.reason, letter.fingerprint) == (Reason.PERMANENT, last.fingerprint)
    assert (letter.failures, letter.redrives) == ((last,), ())
    assert abs(letter.died_at - store.now()) < 5_000
    found = await account(store, message_id)
    assert (found.state, found.reason, found.message.body) == (State.DEAD, Reason.PERMANENT, b"payload")
    assert await drain(store) == []


@pytest.mark.parametrize("reason", list(Reason))
async def test_each_reason_is_kept(store: Store, reason: Reason) -> None:
    await submit(store)
    await bury(store, await take_one(store), reason=reason)
    assert [letter.reason for letter in await letters(store)] == [reason]


async def test_failures_are_kept_one_an_attempt_in_order(store: Store) -> None:
    (message_id,) = await submit(store)
    expected = []
    for reason in ("first", "second", "third"):
        delivery = await take_one(store)
        one = failure(delivery, reason, traceback=f"Traceback: {reason}")
        await settle(store, RetryAt(soon(store), one), delivery)
        expected.append(one)
    delivery = await take_one(store)
    last = failure(delivery, "last")
    await settle(store, Bury(Reason.EXHAUSTED, last), delivery)
    (letter,) = await letters(store)
    assert letter.failures == (*expected, last)
    assert [one.attempt for one in letter.failures] == [1, 2, 3, 4]
    assert (await account(store, message_id)).failures == letter.failures


async def test_equal_tracebacks_of_many_failures_all_come_back(store: Store) -> None:
    ids = await submit(store, 3)
    for delivery in await drain(store):
        await settle(store, RetryAt(soon(store), failure(delivery, traceback="same ✓")), delivery)
    for message_id in ids:
        assert [one.traceback for one in (await account(store, message_id)).failures] == ["same ✓"]


async def test_the_failures_of_a_finished_message_stay_with_its_record(store: Store) -> None:
    (message_id,) = await submit(store)
    await retry(store, await take_one(store))
    await complete(store, await take_one(store))
    found = await account(store, message_id)
    assert (found.progress.attempts, len(found.failures)) == (2, 1)


@pytest.mark.parametrize("kind", ["complete", "retry", "release", "bury"])
async def test_a_stale_token_is_refused_and_changes_nothing(bench: Bench, store: Store, kind: str) -> None:
    (message_id,) = await submit(store)
    stale = await take_one(store)
    bench.advance(MINUTE_S)
    (taken,) = await store.reclaim("orders", new_token(), 30, 10)
    before = (await account(store, message_id), await counts(store), await lane(store))
    verbs = {"complete": complete, "retry": retry, "release": release, "bury": bury}
    assert await verbs[kind](store, stale) == {message_id}
    assert (await account(store, message_id), await counts(store), await lane(store)) == before
    assert await complete(store, taken) == set()


@pytest.mark.parametrize("kind", ["complete", "retry", "release", "bury"])
async def test_a_second_settle_is_refused(store: Store, kind: str) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    verbs = {"complete": complete, "retry": retry, "release": release, "bury": bury}
    assert await verbs[kind](store, delivery) == set()
    before = (await account(store, message_id), await counts(store), await lane(store))
    for verb in verbs.values():
        assert await verb(store, delivery) == {message_id}
    assert (await account(store, message_id), await counts(store), await lane(store)) == before


async def test_an_old_token_is_refused_while_a_new_claim_holds(store: Store) -> None:
    (message_id,) = await submit(store)
    old = await take_one(store)
    await retry(store, old)
    new = await take_one(store)
    assert await complete(store, old) == {message_id}
    assert await complete(store, new) == set()


async def test_one_stale_id_does_not_spoil_a_batch(store: Store) -> None:
    ids = await submit(store, 5)
    first, second, third, fourth, fifth = await drain(store)
    await complete(store, third)
    refused = await store.settle(
        [
            Settlement(first, Complete()),
            Settlement(second, RetryAt(soon(store), failure(second))),
            Settlement(third, Complete()),
            Settlement(fourth, Release(soon(store))),
            Settlement(fifth, Bury(Reason.PERMANENT, failure(fifth))),
        ]
    )
    assert refused == {ids[2]}
    states = [(await account(store, message_id)).state for message_id in ids]
    assert states == [State.DONE, State.WAITING, State.DONE, State.WAITING, State.DEAD]


async def test_one_call_settles_deliveries_of_several_claims_and_queues(store: Store) -> None:
    await submit(store, 2, queue="orders")
    await submit(store, 1, queue="mail")
    deliveries = [await take_one(store), await take_one(store), await take_one(store, queue="mail")]
    assert await complete(store, *deliveries) == set()
    assert [(await counts(store, queue)).published for queue in ("orders", "mail")] == [2, 1]


@pytest.mark.parametrize("kind", ["complete", "retry", "release", "bury"])
async def test_a_delivery_given_twice_in_one_call_counts_once(store: Store, kind: str) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    verbs = {"complete": complete, "retry": retry, "release": release, "bury": bury}
    await verbs[kind](store, delivery, delivery)
    found = await lane(store)
    assert (found.in_flight, found.waiting + found.dead + found.done) == (0, 1)
    assert len((await account(store, message_id)).failures) == (kind in ("retry", "bury"))


@pytest.mark.parametrize("kind", ["complete", "retry", "release", "bury"])
async def test_a_delivery_given_twice_does_not_let_go_of_its_neighbour(
    bench: Bench, store: Store, kind: str
) -> None:
    await submit(store, 2)
    twice, neighbour = await take(store)
    verbs = {"complete": complete, "retry": retry, "release": release, "bury": bury}
    await verbs[kind](store, twice, twice)
    assert await store.extend([neighbour.lease], 30) == set()
    bench.advance(MINUTE_S)
    assert ids_of(await store.reclaim("orders", new_token(), 30, 10)) == [neighbour.message.id]


async def test_a_stale_and_a_live_delivery_of_one_message_in_one_call(bench: Bench, store: Store) -> None:
    await submit(store, 2)
    stale, neighbour = await take(store)
    bench.advance(MINUTE_S)
    (taken,) = await store.reclaim("orders", new_token(), 30, 1)
    if taken.message.id != stale.message.id:
        stale, neighbour = neighbour, stale
    await store.settle([Settlement(stale, Complete()), Settlement(taken, Complete())])
    assert (await account(store, stale.message.id)).state is State.DONE
    assert ids_of(await store.reclaim("orders", new_token(), 30, 10)) == [neighbour.message.id]


async def test_settling_nothing_refuses_nothing(store: Store) -> None:
    assert await store.settle([]) == set()


async def test_an_unknown_message_is_refused(store: Store) -> None:
    await submit(store)
    delivery = await take_one(store)
    await store.settle([Settlement(delivery, Complete())])
    message = type(delivery.message)("never-seen", "orders", "acme", b"", 0, 1.0)
    stranger = type(delivery)(message, delivery.progress, delivery.lease)
    assert await complete(store, stranger) == {"never-seen"}


async def test_a_retry_keeps_its_track_and_takes_part_in_claims_again(store: Store) -> None:
    ids = await submit(store, 4, track=Track.BULK)
    await retry(store, *await drain(store))
    again = await drain(store)
    assert ids_of(again) == ids
    assert {one.message.track for one in again} == {Track.BULK}


async def test_a_finished_message_keeps_its_headers_and_loses_its_body(store: Store) -> None:
    (message_id,) = await submit(store, headers={"to": "ana"})
    await complete(store, await take_one(store))
    found = await account(store, message_id)
    assert (found.message.headers, found.message.body) == ({"to": "ana"}, b"")
