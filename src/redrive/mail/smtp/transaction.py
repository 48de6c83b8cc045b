"""One envelope's passage through a connection: what was sent of it, what was answered, to whom, and who
waits.

A reply to RCPT belongs to its recipient; a reply to MAIL, DATA or the final dot to every recipient who had
not been refused before. `phase` is what the server was to answer next and `after_dot` is set before the
final dot is written, so both can be read after a drop. Never does I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct

from redrive.mail.smtp.envelope import Envelope, stuffed
from redrive.mail.smtp.errors import SmtpPhase
from redrive.mail.smtp.reply_parser import ServerReply

if TYPE_CHECKING:
    from redrive.mail.smtp.connection import Connection


BLOCK = 65_536


class RecipientReply(Struct, frozen=True):
    """What the server decided about one recipient, and at which phase."""

    recipient: str
    phase: SmtpPhase
    reply: ServerReply

    @property
    def accepted(self) -> bool:
        """The server took the message for this recipient: the only yes there is."""
        return self.phase is SmtpPhase.FINAL and self.reply.code < 300


class Transaction:
    """The replies of one envelope as they come, and its content as it goes."""

    __slots__ = ("_blocks", "_mail", "_outcome", "_recipients", "after_dot", "answered", "envelope", "left")

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.after_dot = False
        self.answered = False
        self.left: deque[tuple[SmtpPhase, bytes]] = deque()
        self._mail: ServerReply | None = None
        self._recipients: list[ServerReply] = []
        self._outcome: tuple[SmtpPhase, ServerReply] | None = None
        self._blocks: tuple[bytes, int] | None = None

    @property
    def phase(self) -> SmtpPhase:
        """What the server was to answer next. MAIL also before anything was answered."""
        if self.after_dot:
            return SmtpPhase.FINAL
        if self._mail is None:
            return SmtpPhase.MAIL
        return SmtpPhase.RCPT if len(self._recipients) < len(self.envelope.recipients) else SmtpPhase.DATA

    def take(self, phase: SmtpPhase, reply: ServerReply) -> None:
        """Note the reply to one of its commands."""
        self.answered = True
        if phase is SmtpPhase.MAIL:
            self._mail = reply
        elif phase is SmtpPhase.RCPT:
            self._recipients.append(reply)
        elif phase is SmtpPhase.FINAL or reply.code >= 400:
            self._outcome = (phase, reply)

    @property
    def begun(self) -> bool:
        """The server accepted the sender."""
        return self._mail is not None and self._mail.code < 300

    @property
    def wanted(self) -> bool:
        """Some recipient was accepted, so there is someone to send the content to."""
        return any(reply.code < 300 for reply in self._recipients)

    @property
    def decided(self) -> bool:
        """Every recipient's fate is known, whatever may still be answered."""
        if self._outcome is not None or (self._mail is not None and not self.begun):
            return True
        return len(self._recipients) == len(self.envelope.recipients) and not self.wanted

    @property
    def clean(self) -> bool:
        """The server took it for every recipient: it has nothing left to forget."""
        taken = self._outcome is not None and self._outcome[1].code < 300
        return taken and all(reply.code < 300 for reply in self._recipients)

    def replies(self) -> tuple[RecipientReply, ...]:
        """What is known, in the order of the recipients; all of them once it is decided."""
        if self._mail is not None and not self.begun:
            return tuple(
                RecipientReply(name, SmtpPhase.MAIL, self._mail) for name in self.envelope.recipients
            )
        known = []
        for name, reply in zip(self.envelope.recipients, self._recipients, strict=False):
            if reply.code >= 300:
                known.append(RecipientReply(name, SmtpPhase.RCPT, reply))
            elif self._outcome is not None:
                known.append(RecipientReply(name, *self._outcome))
        return tuple(known)

    def next_block(self) -> tuple[bytes, bool]:
        """The next part of the content, and whether it is the last; the final dot is not in it."""
        content, sent = self._blocks or (stuffed(self.envelope.content), 0)
        block = content[sent : sent + BLOCK]
        self._blocks = (content, sent + BLOCK)
        return block, sent + BLOCK >= len(content)


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
