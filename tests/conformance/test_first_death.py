"""The first death of a message is kept, however often it is brought back and dies again."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from redrive.core.letters import DeadLetter
from redrive.core.lifecycle import Move
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    account,
    bury,
    complete,
    dead,
    keys,
    letters,
    submit,
    take,
)


async def die_again(bench: Bench, store: Store, message_id: str) -> DeadLetter:
    """Bring a letter back a day later, and let it die once more; the letter then."""
    bench.advance(DAY_S)
    await store.redrive("orders", keys([message_id]), actor="ann")
    await bury(store, *await take(store))
    return next(one for one in await letters(store) if one.message.id == message_id)


async def test_the_first_death_of_a_letter_is_its_only_one(store: Store) -> None:
    await dead(store)
    (letter,) = await letters(store)
    assert letter.first_died_at == letter.died_at
    assert not letter.died_again


async def test_a_letter_that_dies_again_keeps_its_first_death(bench: Bench, store: Store) -> None:
    (message_id,) = await dead(store)
    (first,) = await letters(store)
    second = await die_again(bench, store, message_id)
    third = await die_again(bench, store, message_id)
    assert first.died_at < second.died_at < third.died_at
    assert {one.first_died_at for one in (first, second, third)} == {first.died_at}
    assert third.died_again
    found = await account(store, message_id)
    assert (found.died_at, found.first_died_at) == (third.died_at, first.died_at)


async def test_what_never_died_has_no_death_and_what_was_brought_back_has_its_first(
    bench: Bench, store: Store
) -> None:
    (message_id,) = await dead(store)
    (letter,) = await letters(store)
    (fresh,) = await submit(store, tenant="bob")
    bench.advance(DAY_S)
    await store.redrive("orders", keys([message_id]), actor="ann")
    waiting, other = await account(store, message_id), await account(store, fresh)
    assert (waiting.died_at, waiting.first_died_at) == (None, letter.died_at)
    assert (other.died_at, other.first_died_at) == (None, None)
    await complete(store, *await take(store))
    assert (await account(store, message_id)).first_died_at == letter.died_at
    assert (await account(store, fresh)).first_died_at is None


async def test_the_first_death_outlives_a_discard_that_is_taken_back(bench: Bench, store: Store) -> None:
    (message_id,) = await dead(store)
    again = await die_again(bench, store, message_id)
    await store.remove("orders", keys([message_id]), Move.DISCARD, actor="ann")
    assert (await account(store, message_id)).first_died_at == again.first_died_at
    await store.undiscard("orders", keys([message_id]))
    assert await letters(store) == [again]


async def test_the_first_death_comes_back_from_an_archive_and_from_elsewhere(
    bench: Bench, store: Store
) -> None:
    (message_id,) = await dead(store)
    again = await die_again(bench, store, message_id)
    await store.remove("orders", keys([message_id]), Move.ARCHIVE, actor="ann")
    stranger = replace(again, message=msgspec.structs.replace(again.message, id=f"{message_id[:-1]}x"))
    await store.bury([again, stranger])
    assert sorted(await letters(store), key=lambda one: one.message.id) == [again, stranger]
    third = await die_again(bench, store, message_id)
    assert third.first_died_at == again.first_died_at
