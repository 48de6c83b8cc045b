"""How a slice of letters moves: in place, out of the way, or with a new message in its place.

Each move names one death of a letter, so a slice that is moved again after a crash moves nothing twice.
A new message is appended before its letter is removed, with a short delay: whoever loses the letter to
another operation meanwhile cancels the new message before it runs. Two processes may move one slice at once,
when the first was slower than its lease: a letter that its own operation replaced is not lost.
Known weakness: a process that dies within that delay, while another operation takes the same letter, leaves
both; and a letter that shares its parent's body cannot go to another queue: it is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from redrive.core.letters import Account, LetterKey, OperationTally, replacement_id
from redrive.core.lifecycle import Move, State
from redrive.core.message import Entry, Message, Track, expiry
from redrive.core.ports import batches_of
from redrive.office.operations.bodies import BodyRules, headers_of, problem_of
from redrive.office.operations.operation import Operation, OperationKind
from redrive.office.operations.records import Letter, by_queue
from redrive.office.ports import OfficeStore

_HOLD_BACK_MS = 5_000


async def move(
    store: OfficeStore, rules: BodyRules, operation: Operation, letters: Sequence[Letter], body: bytes | None
) -> None:
    """Move a slice; what is not that death of a letter any more, or does not fit its queue, is skipped."""
    for queue, keys in by_queue(letters).items():
        if operation.order.replaces:
            await _replace(store, rules, operation, queue, keys, body)
        elif operation.order.kind is OperationKind.REDRIVE:
            await store.redrive(queue, keys, actor=operation.actor, operation=operation.id)
        elif operation.order.kind is OperationKind.UNDISCARD:
            await store.undiscard(queue, keys, operation=operation.id)
        else:
            await store.remove(queue, keys, Move.DISCARD, actor=operation.actor, operation=operation.id)


async def messages_of(store: OfficeStore, letters: Sequence[Letter]) -> list[Message]:
    """The messages of those letters that are still dead."""
    found: list[Message] = []
    for queue, keys in by_queue(letters).items():
        accounts = {one.message.id: one for one in await store.accounts(queue, [key.id for key in keys])}
        found += [accounts[key.id].message for key in keys if _may_go(accounts.get(key.id), key, queue)]
    return found


def new_id(operation: Operation, key: LetterKey) -> str:
    """The id of the message that takes a letter's place: the same whenever it is made."""
    return replacement_id(key, operation.id)


async def tally_replaced(
    store: OfficeStore, operation: Operation, letters: Sequence[Letter]
) -> OperationTally:
    """The operation's tally, with what came of the new messages of these letters."""
    tally = await store.tally(operation.id)
    accounts: list[Account] = []
    for queue, keys in by_queue(letters).items():
        target = operation.order.to_queue or queue
        accounts += await store.accounts(target, [new_id(operation, key) for key in keys])
    failed = sum(any(one.failures) for one in accounts)
    ended = [one.state for one in accounts]
    return OperationTally(
        moved=tally.moved,
        passed=sum(one.state is State.DONE and not one.failures for one in accounts),
        failed=failed,
        done=ended.count(State.DONE),
        dead=ended.count(State.DEAD),
        removed=sum(one.state is State.REMOVED and not one.failures for one in accounts),
    )


async def _replace(
    store: OfficeStore,
    rules: BodyRules,
    operation: Operation,
    queue: str,
    keys: Sequence[LetterKey],
    body: bytes | None,
) -> None:
    target = operation.order.to_queue or queue
    accounts = {one.message.id: one for one in await store.accounts(queue, [key.id for key in keys])}
    dead = [
        key
        for key in keys
        if _may_go(accounts.get(key.id), key, target)
        and problem_of(rules, target, accounts[key.id], body) is None
    ]
    for batch in batches_of(
        [_entry(store, rules, operation, accounts[key.id], target, body) for key in dead]
    ):
        await store.append([[entry] for entry in batch])
    removed = await store.remove(queue, dead, Move.REPLACE, actor=operation.actor, operation=operation.id)
    await store.run_now(target, [new_id(operation, key) for key in keys if key.id in removed])
    await _take_back(store, operation, queue, [key for key in keys if key.id not in removed])


async def _take_back(store: OfficeStore, operation: Operation, queue: str, keys: Sequence[LetterKey]) -> None:
    """Cancel the new messages of letters that went another way."""
    if not keys:
        return
    accounts = await store.accounts(queue, [key.id for key in keys])
    replaced = {one.message.id for one in accounts if _is_replaced_by(operation, one)}
    lost = [new_id(operation, key) for key in keys if key.id not in replaced]
    await store.cancel(operation.order.to_queue or queue, lost, actor=operation.actor)


def _may_go(account: Account | None, key: LetterKey, target: str) -> bool:
    if account is None or account.state is not State.DEAD:
        return False
    away = account.message.parent is not None and target != account.message.queue
    return account.progress.generation == key.generation and not away


def _is_replaced_by(operation: Operation, account: Account) -> bool:
    removal = account.removal
    return removal is not None and removal.move is Move.REPLACE and account.progress.operation == operation.id


def _entry(
    store: OfficeStore,
    rules: BodyRules,
    operation: Operation,
    account: Account,
    target: str,
    body: bytes | None,
) -> Entry:
    old, now = account.message, store.now()
    body = old.body if body is None else body
    key = LetterKey(old.id, account.progress.generation)
    message = Message(
        id=new_id(operation, key),
        queue=target,
        tenant=old.tenant,
        body=body,
        enqueued_at=now,
        ttl_s=old.ttl_s,
        track=Track.REDRIVE,
        headers={
            **headers_of(rules, target, old, body),
            "x-redriven-from": old.id,
            "x-redriven-queue": old.queue,
            "x-redriven-operation": operation.id,
            "x-redriven-count": str(account.progress.generation + 1),
        },
        parent=old.parent,
    )
    due_at = now + _HOLD_BACK_MS
    return Entry(message, due_at, expiry(now, due_at, old.ttl_s))
