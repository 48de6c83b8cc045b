"""Append's judging by tables, without a database: what is known comes in, answers go out."""

from __future__ import annotations

import pytest

from redrive.core.errors import InvalidMessage
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message, Track, content_digest
from redrive.core.ports import Receipt, Status
from redrive.stores.rules.append import Holder, Identity, Judge, Known, body_hash

QUEUE = 7


def entry(
    message_id: str,
    *,
    tenant: str = "acme",
    body: bytes = b"body",
    track: Track = Track.MAIN,
    dedupe: str | None = None,
    parent: str | None = None,
) -> Entry:
    message = Message(message_id, "orders", tenant, body, 0, 60.0, track, dedupe, {}, parent)
    return Entry(message, 0, 60_000)


def known(one: Entry, state: State = State.DONE, *, queue: int = QUEUE, content: bool = True) -> Known:
    message = one.message
    digest = content_digest(message) if content else None
    identity = Identity(queue, message.tenant, message.track, message.dedupe, message.parent, digest)
    return Known(state, identity)


def judge(
    *,
    known: dict[str, Known] | None = None,
    holders: dict[tuple[str, str], Holder] | None = None,
    parents: dict[str, int | None] | None = None,
) -> Judge:
    return Judge(QUEUE, known or {}, holders or {}, parents or {})


def written(judge: Judge) -> list[tuple[str, int]]:
    return [(one.entry.message.id, one.size) for one in judge.accepted]


@pytest.mark.parametrize(
    ("held", "differs"),
    [
        (known(entry("a")), None),
        (known(entry("a"), content=False), None),
        (known(entry("a"), queue=8), "queue"),
        (known(entry("a", tenant="other")), "tenant"),
        (known(entry("a", track=Track.BULK)), "track"),
        (known(entry("a", dedupe="k")), "dedupe key"),
        (known(entry("a", parent="p")), "parent"),
        (known(entry("a", body=b"other")), "content"),
        (known(entry("a", tenant="other", body=b"other")), "tenant"),
    ],
)
def test_an_id_that_is_known_is_the_same_message_or_a_conflict_that_says_why(
    held: Known, differs: str | None
) -> None:
    court = judge(known={"a": held})
    status = Status.ACCEPTED if differs is None else Status.CONFLICT
    assert court.judge([entry("a")]) == [Receipt("a", State.DONE, status, differs)]
    assert not court.accepted


@pytest.mark.parametrize("state", [State.WAITING, State.CLAIMED, State.DEAD, State.DONE])
@pytest.mark.parametrize(("body", "status"), [(b"body", Status.DUPLICATE), (b"x", Status.CONFLICT)])
def test_a_key_that_is_taken_answers_with_its_holder(state: State, body: bytes, status: Status) -> None:
    court = judge(holders={("acme", "k"): Holder("first", body_hash(b"body"), state)})
    assert court.judge([entry("a", dedupe="k", body=body)]) == [Receipt("first", state, status)]
    assert not court.accepted


def test_a_key_is_of_one_tenant_and_is_taken_by_the_first_entry_of_a_call() -> None:
    court = judge(holders={("other", "k"): Holder("first", body_hash(b"body"), State.DEAD)})
    receipts = court.judge([entry("a", dedupe="k"), entry("b", dedupe="k")])
    assert [(one.id, one.state, one.status) for one in receipts] == [
        ("a", State.WAITING, Status.ACCEPTED),
        ("a", State.WAITING, Status.DUPLICATE),
    ]
    assert written(court) == [("a", 4)]


def test_a_conflict_withholds_its_group_and_leaves_nothing_of_it_to_the_next() -> None:
    court = judge(known={"known": known(entry("known", tenant="other"))}, parents={"a": None})
    group = [entry("a", dedupe="k"), entry("child", parent="a"), entry("known")]
    assert [one.status for one in court.judge(group)] == [
        Status.WITHHELD,
        Status.WITHHELD,
        Status.CONFLICT,
    ]
    assert not court.accepted
    with pytest.raises(InvalidMessage, match="its parent a is not in queue orders"):
        court.judge([entry("child", parent="a")])
    assert [one.status for one in court.judge([entry("b", dedupe="k")])] == [Status.ACCEPTED]


def test_a_child_counts_what_it_shares_and_its_parent_may_come_with_it() -> None:
    court = judge(parents={"stored": 100, "new": None})
    court.judge([entry("one", parent="stored")])
    court.judge([entry("new", body=b"0123456789"), entry("two", parent="new")])
    assert written(court) == [("one", 104), ("new", 10), ("two", 14)]


@pytest.mark.parametrize("message_id", ["a", "p"])
def test_a_child_without_a_parent_that_lives_is_refused_with_its_place(message_id: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        judge(parents={"p": None}).judge([entry("first"), entry(message_id, parent="p")])
    assert refused.value.index == 1
