"""What a session says, gathered until it is written, and what has to happen before it goes on."""

from __future__ import annotations

from enum import Enum

from redrive.mailbox.actions import Delay, Drop, Hang, Raw, Refuse
from redrive.mailbox.replies import SimulatedReply
from redrive.mailbox.transaction import Happening


class Next(Enum):
    """What the connection has to do before the session goes on."""

    READ = "read"
    WAIT = "wait"
    START_TLS = "start TLS"
    HANG = "hang"
    CLOSE = "close"


class Outlet:
    """The way out of one session. `wait_s` is how long to wait where `next` is WAIT."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._postponed: SimulatedReply | None = None
        self.next = Next.READ
        self.wait_s = 0.0

    def say(self, said: SimulatedReply) -> None:
        """A reply; a 421 is the last one."""
        self._out.append(said.encoded)
        if said.code == 421:
            self.next = Next.CLOSE

    def close_with(self, said: SimulatedReply) -> None:
        """The last reply."""
        self.say(said)
        self.next = Next.CLOSE

    def perform(self, step: Happening) -> None:
        """What an address asked for, or the ordinary reply."""
        match step.plain:
            case None:
                self.say(step.ordinary)
            case Refuse(reply=said):
                self.say(said)
            case Raw(line=line):
                self._out.append(line)
            case Drop():
                self.next = Next.CLOSE
            case Hang():
                self.next = Next.HANG
            case Delay(delay_s=delay_s):
                self._postponed, self.wait_s, self.next = step.ordinary, delay_s, Next.WAIT

    def waited(self) -> None:
        """The delay has passed: say what was postponed."""
        postponed, self._postponed = self._postponed, None
        self.next = Next.READ
        if postponed is not None:
            self.say(postponed)

    def take(self) -> bytes:
        """What is to be written now."""
        out, self._out = b"".join(self._out), []
        return out
