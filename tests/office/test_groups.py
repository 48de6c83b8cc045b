"""Groups of dead letters: what they come to, what people say about them, and when they come back."""

from __future__ import annotations

import asyncio

import pytest

from redrive.core.failure import Kind
from redrive.core.store import Store
from redrive.core.verdict import Reason
from redrive.office.audit import AUDIT, Actor
from redrive.office.filters import parse
from redrive.office.groups import Group, GroupBy, GroupError, Groups, GroupState
from redrive.office.index import Index
from tests.conformance.backends import Bench
from tests.conformance.makers import bury as bury_deliveries
from tests.conformance.makers import dead, keys, take
from tests.office.deaths import MINUTE_MS, bury, letter
from tests.office.desks import make_office

ANA = Actor("ana@host", "test")
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def groups(store: Store, index: Index) -> Groups:
    return make_office(store, index).acting(ANA).groups


async def only(groups: Groups, by: GroupBy = GroupBy.CODE) -> Group:
    (group,) = await groups.list(by)
    return group


async def test_a_group_says_how_many_since_when_whom_and_shows_its_newest(
    groups: Groups, store: Store
) -> None:
    letters = [
        letter(store, tenant="acme", code="451", why="busy", age_ms=3 * HOUR_MS),
        letter(store, tenant="umbra", code="451", why="busy", age_ms=2 * HOUR_MS),
        letter(store, tenant="acme", code="451", why="still busy", age_ms=HOUR_MS),
        letter(store, code="550"),
    ]
    ids = await bury(store, letters)
    first, second = await groups.list(GroupBy.CODE)
    counts = first.counts
    assert (counts.key, counts.count, counts.tenants) == ("451", 3, 2)
    assert (counts.first_died_at, counts.last_died_at) == (letters[0].died_at, letters[2].died_at)
    assert (counts.sample.id, counts.sample.failure) == (ids[2], "still busy")
    assert (second.counts.key, second.counts.count) == ("550", 1)


async def test_letters_can_be_grouped_by_everything_they_have_in_common(groups: Groups, store: Store) -> None:
    await bury(
        store,
        [
            letter(store, queue="orders", tenant="umbra", reason=Reason.EXHAUSTED, fingerprint="a" * 16),
            letter(store, kind=None, code=None, age_ms=30 * MINUTE_MS),
        ],
    )
    keys = {by: {group.counts.key for group in await groups.list(by)} for by in GroupBy}
    assert keys == {
        GroupBy.FINGERPRINT: {"a" * 16, "f" * 16},
        GroupBy.CODE: {"550", ""},
        GroupBy.REASON: {"exhausted", "permanent"},
        GroupBy.TENANT: {"umbra", "acme"},
        GroupBy.QUEUE: {"orders", "email:send"},
        GroupBy.AGE: {"5m", "40m"},
    }


async def test_a_trend_counts_deaths_in_equal_parts_of_the_last_while(groups: Groups, store: Store) -> None:
    ages = [1, 2, 61, 119, 121, 500]
    await bury(store, [letter(store, age_ms=age * MINUTE_MS) for age in ages])
    (group,) = await groups.list(GroupBy.CODE, span_s=3 * 3_600, buckets=3)
    assert group.counts.trend == (1, 2, 2)
    assert group.counts.count == 6


async def test_a_redrive_that_fails_again_does_not_restart_a_group(
    groups: Groups, store: Store, bench: Bench
) -> None:
    (message_id,) = await dead(store)
    before = (await only(groups)).counts
    bench.advance(3_600)
    await store.redrive("orders", keys([message_id]), actor="ann")
    await bury_deliveries(store, *await take(store))
    after = (await only(groups)).counts
    assert after.first_died_at == before.first_died_at
    assert after.last_died_at > before.last_died_at
    (aged,) = await groups.list(GroupBy.CODE, parse("age:>50m"), span_s=3 * 3_600, buckets=3)
    assert aged.counts.trend == (0, 1, 0)
    assert {group.counts.key for group in await groups.list(GroupBy.AGE)} == {"80m"}


async def test_a_resolved_group_opens_when_a_letter_that_came_back_dies_again(
    groups: Groups, store: Store, bench: Bench
) -> None:
    (message_id,) = await dead(store)
    await groups.resolve(GroupBy.CODE, "E42")
    assert (await only(groups)).standing.state is GroupState.RESOLVED
    bench.advance(60)
    await store.redrive("orders", keys([message_id]), actor="ann")
    await bury_deliveries(store, *await take(store))
    assert (await only(groups)).standing.state is GroupState.OPEN


async def test_a_group_is_resolved_also_by_a_clock_that_is_behind(groups: Groups, store: Store) -> None:
    await bury(store, [letter(store, age_ms=-50)])
    (group,) = await groups.list(GroupBy.CODE)
    await groups.resolve(GroupBy.CODE, group.counts.key)
    assert (await only(groups)).standing.state is GroupState.RESOLVED


async def test_a_group_names_the_queues_that_it_spans(groups: Groups, store: Store) -> None:
    await bury(store, [letter(store, queue=queue) for queue in ("orders", "email:send", "orders")])
    assert (await only(groups)).counts.queues == ("email:send", "orders")
    assert [one.counts.queues for one in await groups.list(GroupBy.QUEUE)] == [("orders",), ("email:send",)]
    (narrowed,) = await groups.list(GroupBy.CODE, parse("queue:orders"))
    assert narrowed.counts.queues == ("orders",)


async def test_a_filter_narrows_groups_also_by_payload(groups: Groups, store: Store) -> None:
    await bury(
        store, [letter(store, code=code, body=b'{"n": %s}' % code.encode()) for code in ("450", "451")]
    )
    for text in ("code:451", "payload.n:451", '"451"'):
        (group,) = await groups.list(GroupBy.CODE, parse(text))
        assert group.counts.key == "451"


async def test_the_largest_groups_come_first_and_no_more_than_asked_for(groups: Groups, store: Store) -> None:
    await bury(store, [letter(store, code=code) for code in ("1", "2", "2", "3", "3", "3")])
    assert [group.counts.key for group in await groups.list(GroupBy.CODE, limit=2)] == ["3", "2"]


async def test_a_resolved_group_opens_by_itself_when_a_letter_dies_after_it(
    groups: Groups, store: Store, bench: Bench
) -> None:
    await bury(store, [letter(store)])
    await groups.resolve(GroupBy.CODE, "550")
    standing = (await only(groups)).standing
    assert (standing.state, standing.said.actor, standing.reopened) == (GroupState.RESOLVED, ANA.name, None)
    bench.advance(60)
    await bury(store, [letter(store, age_ms=1)])
    standing = (await only(groups)).standing
    assert standing.state is GroupState.OPEN
    assert standing.reopened == "a letter died after it was resolved"


async def test_an_ignored_group_opens_by_itself_at_its_count(groups: Groups, store: Store) -> None:
    await bury(store, [letter(store)])
    await groups.ignore(GroupBy.CODE, "550", until_count=2)
    assert (await only(groups)).standing.state is GroupState.IGNORED
    await bury(store, [letter(store)])
    assert (await only(groups)).standing.state is GroupState.OPEN


async def test_an_ignored_group_opens_by_itself_at_its_date(
    groups: Groups, store: Store, bench: Bench
) -> None:
    await bury(store, [letter(store)])
    await groups.ignore(GroupBy.CODE, "550", until_at=store.now() + HOUR_MS)
    assert (await only(groups)).standing.state is GroupState.IGNORED
    bench.advance(3_601)
    assert (await only(groups)).standing.state is GroupState.OPEN


async def test_a_group_cannot_be_ignored_for_ever(groups: Groups) -> None:
    with pytest.raises(GroupError, match="a count or a date"):
        await groups.ignore(GroupBy.CODE, "550")


async def test_a_reopened_group_keeps_its_notes(groups: Groups, store: Store) -> None:
    await bury(store, [letter(store, code=None, kind=Kind.TEMPORARY)])
    await groups.note(GroupBy.CODE, "", "  the relay was moved  ")
    await groups.resolve(GroupBy.CODE, "")
    await groups.reopen(GroupBy.CODE, "")
    standing = (await only(groups)).standing
    assert (standing.state, standing.reopened) == (GroupState.OPEN, None)
    assert [(note.actor, note.text) for note in standing.said.notes] == [(ANA.name, "the relay was moved")]


async def test_notes_written_at_once_are_all_kept(groups: Groups) -> None:
    await asyncio.gather(*(groups.note(GroupBy.CODE, "550", f"note {n}") for n in range(5)))
    said = await groups.said(GroupBy.CODE, "550")
    assert {note.text for note in said.notes} == {f"note {n}" for n in range(5)}


@pytest.mark.parametrize("text", ["", "   ", "x" * 2_001])
async def test_a_note_has_something_to_say_and_is_not_a_book(groups: Groups, text: str) -> None:
    with pytest.raises(GroupError):
        await groups.note(GroupBy.CODE, "550", text)


async def test_what_is_said_about_a_group_is_in_the_audit(groups: Groups, store: Store) -> None:
    await groups.note(GroupBy.CODE, "550", "seen")
    await groups.resolve(GroupBy.CODE, "550")
    rows = [row.document for row in await store.read_journal(AUDIT)]
    assert [(row["verb"], row["row"]) for row in rows] == [
        ("note group", "intent"),
        ("note group", "outcome"),
        ("resolve group", "intent"),
        ("resolve group", "outcome"),
    ]
    assert rows[0]["subject"] == {"by": "code", "key": "550", "tenant": None}


async def test_a_tenants_own_people_see_neither_letters_nor_notes_of_others(
    store: Store, index: Index
) -> None:
    await bury(store, [letter(store, tenant=tenant) for tenant in ("acme", "umbra")])
    office = make_office(store, index)
    everybody, acme = office.acting(ANA).groups, office.acting(ANA, "acme").groups
    await everybody.note(GroupBy.CODE, "550", "umbra complained")
    await everybody.resolve(GroupBy.CODE, "550")
    group = await only(acme)
    assert (group.counts.count, group.counts.tenants) == (1, 1)
    assert (group.standing.state, group.standing.said.notes) == (GroupState.OPEN, ())
    assert [one.counts.key for one in await acme.list(GroupBy.TENANT)] == ["acme"]
