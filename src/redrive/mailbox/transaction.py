"""One mail on its way in: its sender, its recipients, and what their local parts ask for.

Says what happens at each stage and notes one attempt for each RCPT; never talks to the client. A mail is
kept before anything is said about it. Of several recipients that ask for something after RCPT, the first
one's wish counts: SMTP has one answer to a final dot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from redrive.mailbox.addresses import MailFrom
from redrive.mailbox.behaviours import Behaviour, Delay, Drop, Hang, Plain, Point, Raw, Refuse, behaviour
from redrive.mailbox.content import Headers, problem, read_headers, unstuffed
from redrive.mailbox.inbox import Inbox
from redrive.mailbox.memory import MailTries
from redrive.mailbox.received import Attempt
from redrive.mailbox.replies import RECIPIENT_ACCEPTED, STORAGE_FULL, SimulatedReply, reply


@dataclass(frozen=True, slots=True)
class SharedState:
    """What all transactions of a mailbox share. `now` is in seconds, for what depends on time."""

    inbox: Inbox
    memory: MailTries
    now: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Happening:
    """What happens, or None for the ordinary course, and what is said in the ordinary course."""

    plain: Plain | None
    ordinary: SimulatedReply


class ServerTransaction:
    """From MAIL to the final dot."""

    def __init__(self, sender: MailFrom, desk: SharedState) -> None:
        self.sender = sender
        self.recipients: list[str] = []
        self._desk = desk
        self._later: tuple[str, Behaviour] | None = None

    def add(self, address: str) -> Happening:
        """A recipient. Accepted unless it is refused, dropped or left hanging here."""
        wish = behaviour(address)
        plain = None
        if wish is not None and wish.stage is Point.RECIPIENT:
            plain = self._now_does(address, wish, self.sender.address, 0)
        if plain is None or isinstance(plain, Delay):
            self.recipients.append(address)
            if wish is not None and self._later is None and wish.stage is not Point.RECIPIENT:
                self._later = (address, wish)
        else:
            self.refuse(address, plain)
        return Happening(plain, RECIPIENT_ACCEPTED)

    def refuse(self, address: str, plain: Plain) -> None:
        """Note that a recipient was not accepted."""
        self._note([address], Point.RECIPIENT, plain, None, None)

    def at(self, stage: Point) -> Plain | None:
        """What happens when the transaction comes to DATA or to its first content."""
        if self._later is None or self._later[1].stage is not stage:
            return None
        address, wish = self._later
        plain = self._now_does(address, wish, self.sender.address, 0)
        if plain is not None:
            self._note(self._take_recipients(), stage, plain, None, None)
        return plain

    def refuse_content(self, refusal: SimulatedReply) -> Happening:
        """The content came to its end and is refused, whoever it is for."""
        plain = Refuse(refusal)
        self._note(self._take_recipients(), Point.FINAL, plain, None, None)
        return Happening(plain, refusal)

    def finish(self, lines: bytes) -> Happening:
        """The content is complete: check it, keep it if it is to be kept, say what happens."""
        content = unstuffed(lines)
        refusal = problem(content)
        if refusal is not None:
            return self.refuse_content(refusal)
        headers = read_headers(content)
        plain = self._final(headers, len(content))
        ordinary = STORAGE_FULL
        if plain is None or isinstance(plain, Delay) or (isinstance(plain, Drop | Hang) and plain.kept):
            try:
                mail = self._desk.inbox.keep(self.sender.address, tuple(self.recipients), headers, content)
            except OSError:
                plain = Refuse(STORAGE_FULL)
            else:
                ordinary = reply(250, f"2.0.0 kept as {mail.id}")
        self._note(self._take_recipients(), Point.FINAL, plain, ordinary, headers.message_id)
        return Happening(plain, ordinary)

    def abandon(self) -> None:
        """The client went away or started over: what was said to each RCPT was the last."""
        self._note(self._take_recipients(), Point.RECIPIENT, None, RECIPIENT_ACCEPTED, None)

    def _final(self, headers: Headers, size: int) -> Plain | None:
        if self._later is None or self._later[1].stage is not Point.FINAL:
            return None
        address, wish = self._later
        return self._now_does(address, wish, headers.message_id or self.sender.address, size)

    def _now_does(self, address: str, wish: Behaviour, mail: str, size: int) -> Plain | None:
        return self._desk.memory.now_does(wish.action, address, mail, size, self._desk.now())

    def _take_recipients(self) -> list[str]:
        taken, self.recipients = self.recipients, []
        return taken

    def _note(
        self,
        addresses: list[str],
        stage: Point,
        plain: Plain | None,
        ordinary: SimulatedReply | None,
        message_id: str | None,
    ) -> None:
        at = _now_ms()
        code, text = _said(plain, ordinary)
        for address in addresses:
            attempt = Attempt(at, self.sender.address, address, stage, code, text, message_id)
            self._desk.inbox.note(attempt)


def note_refused_sender(desk: SharedState, sender: str, said: SimulatedReply) -> None:
    """An attempt that ended at MAIL, before any recipient was named."""
    desk.inbox.note(Attempt(_now_ms(), sender, "", Point.MAIL, said.code, said.text))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _said(plain: Plain | None, ordinary: SimulatedReply | None) -> tuple[int | None, str]:
    """What the client was told: a code and its text, or no code and what it got instead."""
    match plain:
        case Refuse(reply=said):
            return said.code, said.text
        case Raw():
            return None, "(a line that is no reply)"
        case Drop():
            return None, "(connection closed)"
        case Hang():
            return None, "(no answer)"
    return (None, "") if ordinary is None else (ordinary.code, ordinary.text)
