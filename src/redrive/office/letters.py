"""Dead letters: find them, bring them back, discard them; one, some or all (R12).

`all` means the letters that were dead when the verb began: one that dies again meanwhile is left
alone. Letters whose own short time to live has passed (a one-time code) are skipped unless asked for.
Known weakness until operations exist: a re-drive of many is not resumed by itself after a crash; what
it had moved stays moved, and running it again moves the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

from redrive.core.letters import Account, DeadLetter, LetterKey
from redrive.core.lifecycle import Move, State
from redrive.core.ports import PAGE, Store
from redrive.core.retry import RetryPolicy
from redrive.office.audit import Actor, action

Policy = Callable[[str], RetryPolicy]
Progress = Callable[[int], None]
_Move = Callable[[str, Sequence[str]], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters: these ids, or those of a queue (None: of all), at most `limit`."""

    ids: tuple[str, ...] = ()
    queue: str | None = None
    limit: int | None = None


@dataclass(slots=True)
class Tally:
    """What a verb did: moved, skipped (no longer dead), stale (own time to live passed), not found."""

    moved: int = 0
    skipped: int = 0
    stale: int = 0
    missing: int = 0


class Letters:
    """The verbs on dead letters, for one actor."""

    def __init__(self, store: Store, actor: Actor, policy: Policy) -> None:
        self._store = store
        self._actor = actor
        self._policy = policy

    async def page(
        self, queue: str | None, after: str | None, limit: int
    ) -> tuple[list[DeadLetter], str | None]:
        """Some letters, oldest first, and the cursor that continues."""
        page = await self._store.letters(queue, after=after, limit=limit)
        return list(page.letters), page.cursor

    async def preview(self, selection: Selection, *, stale: bool = False) -> Tally:
        """What a re-drive would do; changes nothing."""
        tally = Tally()
        async for letters in self._pages(selection, tally):
            kept = self._fresh(letters, stale, tally)
            tally.moved += len(kept)
        return tally

    async def redrive(
        self, selection: Selection, *, stale: bool = False, progress: Progress = lambda _: None
    ) -> Tally:
        """Bring letters back to waiting."""

        async def move(queue: str, ids: Sequence[str]) -> int:
            return len(
                await self._store.redrive(queue, [LetterKey(one) for one in ids], actor=self._actor.name)
            )

        return await self._move("redrive", selection, move, stale, progress)

    async def discard(self, selection: Selection, *, progress: Progress = lambda _: None) -> Tally:
        """Remove letters from the queue of the dead; their content is kept, their dedupe keys are freed."""

        async def move(queue: str, ids: Sequence[str]) -> int:
            return len(
                await self._store.remove(
                    queue, [LetterKey(one) for one in ids], Move.DISCARD, actor=self._actor.name
                )
            )

        return await self._move("discard", selection, move, True, progress)

    async def _move(
        self, verb: str, selection: Selection, move: _Move, stale: bool, progress: Progress
    ) -> Tally:
        subject = {"ids": list(selection.ids), "queue": selection.queue, "limit": selection.limit}
        tally = Tally()
        async with action(self._store, self._actor, verb, subject) as current:
            async for letters in self._pages(selection, tally):
                kept = self._fresh(letters, stale, tally)
                for queue, ids in _by_queue(kept).items():
                    moved = await move(queue, ids)
                    tally.moved += moved
                    tally.skipped += len(ids) - moved
                progress(tally.moved + tally.skipped + tally.stale)
                current.result.update(asdict(tally))
        return tally

    def _fresh(self, letters: Sequence[DeadLetter], stale: bool, tally: Tally) -> list[DeadLetter]:
        now = self._store.now()
        kept = [letter for letter in letters if stale or not self._is_stale(letter, now)]
        tally.stale += len(letters) - len(kept)
        return kept

    def _is_stale(self, letter: DeadLetter, now: int) -> bool:
        message = letter.message
        own = message.ttl_s < self._policy(message.queue).ttl_s
        return own and message.enqueued_at + message.ttl_s * 1000 < now

    async def _pages(self, selection: Selection, tally: Tally) -> AsyncIterator[list[DeadLetter]]:
        if selection.ids:
            yield await self._named(selection.ids, tally)
            return
        before_at, cursor = self._store.now(), None
        left = selection.limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await self._store.letters(selection.queue, after=cursor, limit=size)
            letters = [letter for letter in page.letters if letter.died_at <= before_at]
            yield letters
            cursor = page.cursor
            left = None if left is None else left - len(letters)
            if cursor is None or len(letters) < len(page.letters):
                return

    async def _named(self, ids: Sequence[str], tally: Tally) -> list[DeadLetter]:
        found = []
        for message_id in dict.fromkeys(ids):
            account = await self._store.get(message_id)
            if account is None:
                tally.missing += 1
            elif account.state is not State.DEAD or account.reason is None:
                tally.skipped += 1
            else:
                found.append(as_letter(account))
        return found


def as_letter(account: Account) -> DeadLetter:
    """A dead message's account as a letter."""
    reason, died_at = account.reason, account.died_at
    if reason is None or died_at is None:
        raise ValueError(f"{account.message.id} is {account.state}, not dead")
    last = account.failures[-1] if account.failures else None
    return DeadLetter(
        message=account.message,
        progress=account.progress,
        reason=reason,
        died_at=died_at,
        fingerprint=last.fingerprint if last else "",
        failures=account.failures,
        redrives=account.redrives,
    )


def _by_queue(letters: Sequence[DeadLetter]) -> dict[str, list[str]]:
    queues: dict[str, list[str]] = {}
    for letter in letters:
        queues.setdefault(letter.message.queue, []).append(letter.message.id)
    return queues
