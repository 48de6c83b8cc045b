"""Dead letters on their way back to a broker: published to the queue they came from, confirmed, then marked.

A process that dies between the two leaves letter and message: whoever has the message marks the letter.
What the broker will never take stays a dead letter, and the log has the broker's words.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from msgspec import Struct

from redrive.brokers.reports import Report, Reports
from redrive.core.carrier import Carrier, MessagesRefused, PublishingInterrupted, Return
from redrive.core.errors import StoreError
from redrive.core.letters import Account, LetterKey
from redrive.core.lifecycle import State
from redrive.core.store import Store
from redrive.core.verdict import Complete

PARKED_BY = "parked-by"
"""The header of a letter that a handler of Redrive gave up."""

_log = logging.getLogger("redrive")


class _Sent(Struct, frozen=True):
    """What came of publishing: the letters that the broker has, and what is wrong with others of them."""

    accounts: Sequence[Account]
    problem: StoreError | None = None


class Returns:
    """Sends letters of one ledger back to its broker."""

    def __init__(self, carrier: Carrier, ledger: Store, reports: Reports) -> None:
        self._carrier = carrier
        self._ledger = ledger
        self._reports = reports

    async def send(
        self, queue: str, letters: Sequence[LetterKey], actor: str, operation: str | None
    ) -> set[str]:
        """The ids of those that went. A letter of another generation is skipped."""
        wanted = {one.id: one.generation for one in letters}
        accounts = await self._ledger.accounts(queue, list(wanted))
        dead = [
            one
            for one in accounts
            if one.state is State.DEAD and wanted[one.message.id] in (None, one.progress.generation)
        ]
        sent = await self._publish(queue, dead, actor, operation)
        keys = [LetterKey(one.message.id, one.progress.generation) for one in sent.accounts]
        moved = set(await self._ledger.redrive(queue, keys, actor=actor, operation=operation))
        gone = {one.id: one.generation + 1 for one in keys if one.id in moved and one.generation is not None}
        left = {
            one.message.id: one.progress.generation for one in accounts if _is_left(one, wanted, operation)
        }
        await self._complete_foreign(queue, accounts, gone | left)
        if sent.problem is not None:
            raise sent.problem
        return moved

    async def _publish(
        self, queue: str, accounts: Sequence[Account], actor: str, operation: str | None
    ) -> _Sent:
        now = self._ledger.now()
        returns = [
            Return(one.message, one.progress.generation + 1, actor, now, operation) for one in accounts
        ]
        try:
            untaken = await self._carrier.send_back(returns)
        except PublishingInterrupted as error:
            return _Sent([accounts[place] for place in sorted(error.confirmed)], error)
        except MessagesRefused as error:
            for place, words in error.reasons.items():
                _log.error(
                    "%s stays a dead letter of %s: the broker will never take it: %s",
                    accounts[place].message.id,
                    queue,
                    words,
                )
            sent = [accounts[place] for place in sorted(error.confirmed)]
            left = len(accounts) - len(sent) - len(error.reasons)
            return _Sent(sent, _not_taken(queue, left))
        sent = [one for one in accounts if one.message.id not in untaken]
        return _Sent(sent, _not_taken(queue, len(untaken)))

    async def _complete_foreign(
        self, queue: str, accounts: Sequence[Account], gone: Mapping[str, int]
    ) -> None:
        """Nobody tells us what becomes of what other software consumes: handed over is all we know."""
        foreign = {one.message.id for one in accounts if PARKED_BY not in one.message.headers}
        keys = [LetterKey(name, generation) for name, generation in gone.items() if name in foreign]
        await self._reports.tell(queue, [Report(key, Complete()) for key in keys])


def _is_left(account: Account, wanted: Mapping[str, int | None], operation: str | None) -> bool:
    """Whether an earlier call of the same operation sent a letter back, and came no further."""
    progress, generation = account.progress, wanted[account.message.id]
    open_still = account.state in (State.WAITING, State.CLAIMED)
    return open_still and progress.operation == operation and progress.generation - 1 == generation


def _not_taken(queue: str, count: int) -> StoreError | None:
    if not count:
        return None
    return StoreError(
        f"{queue} does not take {count} letters back: it may be gone, or full. They are dead letters as "
        "before: declare it or make room, then it goes on"
    )
