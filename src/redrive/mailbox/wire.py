"""Bytes from a client, cut into command lines and contents, and what a session says, gathered until it is
written.

CR LF ends a line, nothing else does. Holds at most one line, or one content of the allowed size and what was
pipelined behind it: larger content is counted as such and thrown away as it comes.
"""

from __future__ import annotations

from enum import Enum

from redrive.mailbox.behaviours import Delay, Drop, Hang, Raw, Refuse
from redrive.mailbox.replies import SimulatedReply
from redrive.mailbox.transaction import Happening

_LINE = 2_048
_END = b"\r\n.\r\n"


class Odd(Enum):
    """What came in the place of a line or of content."""

    TOO_LONG = "too long"


class Intake:
    """What a client sent and nobody has read yet."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._too_long = False

    @property
    def pending(self) -> bool:
        """Whether there are bytes that nobody has read."""
        return bool(self._buffer)

    @property
    def content_begun(self) -> bool:
        """Whether any of the content has come."""
        return len(self._buffer) > 2 or self._too_long

    def add(self, data: bytes | memoryview) -> None:
        self._buffer += data

    def clear(self) -> None:
        """Throw away what nobody has read."""
        self._buffer.clear()

    def line(self) -> bytes | Odd | None:
        """The next line without its end; None while it is not whole."""
        end = self._buffer.find(b"\r\n", 0, _LINE)
        if end < 0:
            return Odd.TOO_LONG if len(self._buffer) >= _LINE else None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def begin_content(self) -> None:
        """From here on content comes. The end of DATA's own line is put back: a final dot may follow it."""
        self._buffer[:0] = b"\r\n"
        self._searched, self._too_long = 0, False

    def content(self) -> bytes | Odd | None:
        """The content with its dots, after a CR LF; None until its final dot has come."""
        end = self._buffer.find(_END, self._searched)
        if end < 0:
            self._discard_surplus()
            self._searched = max(0, len(self._buffer) - len(_END) + 1)
            return None
        too_long = self._too_long or end > self._size_bytes
        content = Odd.TOO_LONG if too_long else bytes(self._buffer[: end + 2])
        del self._buffer[: end + len(_END)]
        return content

    def _discard_surplus(self) -> None:
        if len(self._buffer) > self._size_bytes + len(_END):
            self._too_long = True
            del self._buffer[: 1 - len(_END)]


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
