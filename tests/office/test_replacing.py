"""Re-drive to another queue, and edit and re-drive: a new message first, then the letter goes."""

from __future__ import annotations

import pytest

from redrive.core.errors import ConfigurationError
from redrive.core.letters import Account, LetterKey
from redrive.core.lifecycle import Move, State
from redrive.core.message import Track
from redrive.core.settings import OfficeSettings
from redrive.core.store import Store
from redrive.office.audit import Query, read
from redrive.office.masking import Mask
from redrive.office.operations import OperationError, OperationState, Selection
from redrive.office.operations.bodies import BodyRule, WrongBody
from redrive.office.operations.difference import difference
from redrive.office.operations.move import new_id
from tests.conformance.backends import Bench
from tests.conformance.makers import account, counts, entry
from tests.office.desks import desk, discard, letters, redrive, run_to, step, work

EDITING = OfficeSettings(edit=True)


async def _replaced(store: Store, operation_id: str, old_id: str) -> Account:
    operation = (await desk(store).show(operation_id)).operation
    return await account(store, new_id(operation, LetterKey(old_id, 0)))


async def test_letters_go_to_another_queue_as_new_messages_that_say_where_they_are_from(
    store: Store,
) -> None:
    ids = await letters(store, 3, body=b'{"order": 7}', headers={"x-trace": "t1"}, dedupe=None)
    office = desk(store)
    started = await office.start(redrive(to_queue="billing"))
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.skipped) == (OperationState.FINISHED, 3, 0)
    for old in ids:
        before = await account(store, old)
        removal = before.removal
        assert removal is not None
        assert (removal.move, removal.actor) == (Move.REPLACE, "ana@host")
        message = (await _replaced(store, started.id, old)).message
        assert before.replaced_by == message.id
        assert (message.queue, message.tenant, message.body) == ("billing", "acme", b'{"order": 7}')
        assert (message.track, message.dedupe) == (Track.REDRIVE, None)
        assert message.headers["x-trace"] == "t1"
        assert message.headers["x-redriven-from"] == old
        assert message.headers["x-redriven-operation"] == started.id
    assert await work(store, queue="billing") == 3


NUMBERS = {
    "numbers": BodyRule(
        lambda body, shared: None if body.isdigit() else "it is no number",
        lambda body, given: {**given, "digits": str(len(body))},
    )
}


async def test_a_queue_with_a_form_of_its_own_takes_nothing_else(store: Store) -> None:
    (word,), (number,) = await letters(store, 1, body=b"word"), await letters(store, 1, body=b"42")
    office = desk(store, bodies=NUMBERS)
    for ask in (office.preview, office.start):
        with pytest.raises(WrongBody, match=f"{word} cannot go to numbers: it is no number"):
            await ask(redrive(to_queue="numbers"))
    assert (await office.list()).found == []
    started = await office.start(redrive(Selection(ids=(number,)), to_queue="numbers"))
    assert (await office.wait(started.id)).moved == 1
    assert (await _replaced(store, started.id, number)).message.headers["digits"] == "2"
    assert (await account(store, word)).state is State.DEAD


async def test_what_does_not_fit_its_queue_when_it_moves_stays_a_dead_letter(store: Store) -> None:
    (word,), (number,) = await letters(store, 1, body=b"word"), await letters(store, 1, body=b"42")
    started = await desk(store).start(redrive(to_queue="numbers"))
    seen = await desk(store, bodies=NUMBERS).wait(started.id)
    assert (seen.moved, seen.skipped) == (1, 1)
    assert (await account(store, word)).state is State.DEAD
    assert (await account(store, number)).state is State.REMOVED


async def test_an_edited_body_fits_the_queue_of_its_letter(store: Store) -> None:
    (old,) = await letters(store, 1, queue="numbers", body=b"word")
    office = desk(store, settings=EDITING, bodies=NUMBERS)
    order = redrive(Selection(ids=(old,)), edited=True)
    with pytest.raises(WrongBody, match="it is no number"):
        await office.start(order, body=b'"words"')
    started = await office.start(order, body=b"7")
    assert (await office.wait(started.id)).moved == 1


async def test_a_crash_between_the_new_message_and_the_letters_removal_makes_one_message(
    store: Store,
) -> None:
    (old,) = await letters(store, 1)
    office = desk(store)
    started = await office.start(redrive(to_queue="billing"))
    seen = await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 1)
    made = new_id(seen.operation, LetterKey(old, 0))
    await store.append([[entry(store, id=made, queue="billing")]])
    assert await work(store, queue="billing") == 1
    assert (await office.wait(started.id)).moved == 1
    assert await work(store, queue="billing") == 0
    assert (await counts(store, "billing")).published == 1


async def test_whoever_loses_a_letter_to_another_takes_its_new_message_back(
    store: Store, bench: Bench
) -> None:
    (old,) = await letters(store, 1)
    office = desk(store)
    started = await office.start(redrive(to_queue="billing"))
    seen = await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 1)
    made = new_id(seen.operation, LetterKey(old, 0))
    await store.append([[entry(store, id=made, queue="billing", delay_s=60)]])
    other = await office.start(discard())
    assert (await office.wait(other.id)).moved == 1
    seen = await office.wait(started.id)
    assert (seen.moved, seen.skipped) == (0, 1)
    assert (await account(store, made)).state is State.REMOVED
    bench.advance(120)
    assert await work(store, queue="billing") == 0


async def test_a_canary_in_another_queue_is_judged_there(store: Store) -> None:
    await letters(store, 10)
    office = desk(store)
    started = await office.start(redrive(to_queue="billing", canary=2))
    await run_to(office, started.id, lambda seen: seen.moved == 2)
    assert (await step(office, started.id, 3)).moved == 2
    await work(store, lambda message: False, queue="billing")
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved) == (OperationState.HALTED, 2)
    assert (await counts(store)).dlq == 8


async def test_an_edited_letter_comes_back_with_its_new_body_and_the_audit_says_what_changed(
    store: Store,
) -> None:
    (old,) = await letters(store, 1, body=b'{"to": "anna@example.org", "count": 1, "token": "abc"}')
    office = desk(store, settings=EDITING)
    order = redrive(Selection(ids=(old,), generation=0), edited=True)
    body = b'{"to": "anna@example.com", "count": 1, "token": "xyz"}'
    started = await office.start(order, body=body)
    assert (await office.wait(started.id)).moved == 1
    message = (await _replaced(store, started.id, old)).message
    assert (message.body, message.queue) == (body, "orders")
    rows = [row.document async for row in read(store, Query(action=started.id))]
    changes = rows[0]["subject"]["changes"]
    assert [change["path"] for change in changes] == ["to", "token"]
    assert "anna@" not in str(rows)
    assert "xyz" not in str(rows)


async def test_an_edit_of_a_letter_that_died_again_meanwhile_changes_nothing(store: Store) -> None:
    (old,) = await letters(store, 1)
    office = desk(store, settings=EDITING)
    first = await office.start(redrive())
    await office.wait(first.id)
    await work(store, lambda message: False)
    started = await office.start(redrive(Selection(ids=(old,), generation=0), edited=True), body=b"{}")
    seen = await office.wait(started.id)
    assert (seen.moved, seen.operation.frozen.gone) == (0, 1)


async def test_editing_is_off_unless_the_setting_allows_it(store: Store) -> None:
    (old,) = await letters(store, 1)
    order = redrive(Selection(ids=(old,)), edited=True)
    with pytest.raises(OperationError, match=r"office\.edit"):
        await desk(store).start(order, body=b"{}")
    with pytest.raises(OperationError, match="new body"):
        await desk(store, settings=EDITING).start(order)
    with pytest.raises(OperationError, match="one letter"):
        await desk(store, settings=EDITING).start(redrive(edited=True), body=b"{}")
    with pytest.raises(ConfigurationError, match="re-drive"):
        discard(to_queue="billing")


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (b'{"a": 1}', b'{"a": 1}', []),
        (b'{"a": 1}', b'{"a": true}', [("a", "1", "true")]),
        (b'{"a": {"b": 1, "c": 2}}', b'{"a": {"b": 3}, "d": 4}', [
            ("a.b", "1", "3"), ("a.c", "2", None), ("d", None, "4"),
        ]),
        (b'{"password": "old"}', b'{"password": "new"}', [("password", "***", "***")]),
        (b'{"secret": {"a": "x"}}', b'{"secret": {"a": "y"}}', [("secret.a", "***", "***")]),
        (b'{"taxId": 1}', b'{"taxId": 2}', [("taxId", "***", "***")]),
        (b'{"anna@a.example": 1}', b"{}", [("***@a.example", "***", None)]),
        (b'"x"', b'"y"', [("", "x", "y")]),
    ],
)  # fmt: skip
def test_a_difference_names_the_fields_that_changed(
    before: bytes, after: bytes, changes: list[tuple[str, str | None, str | None]]
) -> None:
    found = [
        (one["path"], one["before"], one["after"]) for one in difference(before, after, Mask(("tax_id",)))
    ]
    assert found == changes


def test_a_difference_of_bytes_tells_their_size_and_hash() -> None:
    ((path, before, after),) = [tuple(one.values()) for one in difference(b"\xff", b"{}", Mask())]
    assert path == ""
    assert before.startswith("1 bytes, sha256 a8100ae6aa19")
    assert after.startswith("2 bytes")
