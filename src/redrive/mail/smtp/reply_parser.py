"""A server's bytes, cut into replies: strict about form, bounded in size, linear in time.

A line ends with LF, with or without a CR before it. Whatever else is odd (no code, a code that changes
within a reply, a line or a reply without end) is a ProtocolError, after which nothing of the connection
can be trusted. What a reply means is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from redrive.mail.smtp.errors import ProtocolError, SmtpPhase

MAX_LINE = 2_048
MAX_LINES = 128

_CODES = {b"%d" % code: code for code in range(200, 600)}
_MARKS = frozenset({b"", b" ", b"-"})
_ENHANCED = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?:\s|$)")


class ServerReply(Struct, frozen=True):
    """One reply: its code, and each line's bytes after the code. Several are made for each mail, and a
    Struct costs a quarter of a dataclass."""

    code: int
    lines: tuple[bytes, ...]

    @property
    def enhanced(self) -> str | None:
        """The enhanced code (RFC 3463) at the head of the first line."""
        found = _ENHANCED.match(_decoded(self.lines[0]))
        return found[1] if found else None

    @property
    def text(self) -> str:
        """All lines as one, without the enhanced code that servers repeat on each."""
        enhanced = self.enhanced
        lines = [_decoded(line) for line in self.lines]
        return " ".join(line.removeprefix(enhanced).strip() if enhanced else line.strip() for line in lines)

    def __str__(self) -> str:
        return " ".join(part for part in (str(self.code), self.enhanced, self.text) if part)


class ReplyParser:
    """Takes bytes as they come and gives whole replies; keeps what is not whole yet."""

    def __init__(self) -> None:
        self._rest = b""
        self._code = 0
        self._lines: list[bytes] = []

    @property
    def empty(self) -> bool:
        """Whether no begun line and no begun reply is kept."""
        return not self._rest and not self._lines

    def feed(self, data: bytes) -> Iterator[ServerReply]:
        """The replies that are whole now; a ProtocolError comes after the good ones before it."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            reply = self._take(line)
            if reply is not None:
                yield reply
        if len(self._rest) > MAX_LINE:
            raise _odd(f"a line of more than {MAX_LINE} bytes")

    def _take(self, line: bytes) -> ServerReply | None:
        if len(line) > MAX_LINE:
            raise _odd(f"a line of more than {MAX_LINE} bytes")
        line = line.removesuffix(b"\r")
        code, mark, text = _CODES.get(line[:3]), line[3:4], line[4:]
        if code is None or mark not in _MARKS:
            raise _odd("a line without a reply code")
        if self._lines and code != self._code:
            raise _odd("a reply whose code changes from line to line")
        if mark == b"-":
            self._keep(code, text)
            return None
        if not self._lines:
            return ServerReply(code, (text,))
        reply = ServerReply(code, (*self._lines, text))
        self._lines.clear()
        return reply

    def _keep(self, code: int, text: bytes) -> None:
        self._code = code
        self._lines.append(text)
        if len(self._lines) >= MAX_LINES:
            raise _odd(f"a reply of more than {MAX_LINES} lines")


def _decoded(line: bytes) -> str:
    """Servers that write no UTF-8 write some Latin alphabet most of the time."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def _odd(what: str) -> ProtocolError:
    return ProtocolError(f"the server sent {what}; the connection was closed", phase=SmtpPhase.READY)
