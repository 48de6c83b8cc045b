"""One envelope that someone waits for, on its way through a pool and a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.transaction import RecipientReply, Transaction

if TYPE_CHECKING:
    from redrive.mail.smtp.connection import Connection


class Sending:
    """One envelope that someone waits for. `reused`: its connection had been used or idle before."""

    __slots__ = ("connection", "envelope", "future", "reused", "transaction")

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.future: asyncio.Future[tuple[RecipientReply, ...]] = asyncio.get_running_loop().create_future()
        self.connection: Connection | None = None
        self.transaction: Transaction | None = None
        self.reused = False

    @property
    def unanswered(self) -> bool:
        """It went out, and nothing of it was answered: a fresh connection may be tried at once."""
        transaction = self.transaction
        return transaction is not None and not transaction.answered and not transaction.after_dot

    def finish(self) -> None:
        """Hand the replies to whoever waits."""
        if self.transaction is not None and not self.future.done():
            self.future.set_result(self.transaction.replies())

    def fail(self, error: BaseException) -> None:
        """Hand an error to whoever waits."""
        if not self.future.done():
            self.future.set_exception(error)

    async def wait(self) -> tuple[RecipientReply, ...]:
        """The replies. A cancelled caller closes the connection that carries the envelope."""
        try:
            return await self.future
        except asyncio.CancelledError:
            if self.connection is not None:
                self.connection.abandon(self)
            raise
