"""What a server offers in its reply to EHLO. Learned anew after STARTTLS, never carried across it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from redrive.mail.smtp.reply_parser import ServerReply


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The extensions we use. `size`: the largest message, None where the server names no limit."""

    pipelining: bool = False
    starttls: bool = False
    size_offered: bool = False
    size: int | None = None
    eight_bit_mime: bool = False
    smtputf8: bool = False
    enhanced_status_codes: bool = False
    mechanisms: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, reply: ServerReply) -> Capabilities:
        """From the reply to EHLO; its first line is the server's name. Unknown extensions are ignored."""
        offered = dict(_extensions(reply.lines[1:]))
        size = offered.get("SIZE", [])
        limit = int(size[0]) if size and size[0].isascii() and size[0].isdigit() else 0
        return cls(
            pipelining="PIPELINING" in offered,
            starttls="STARTTLS" in offered,
            size_offered="SIZE" in offered,
            size=limit or None,
            eight_bit_mime="8BITMIME" in offered,
            smtputf8="SMTPUTF8" in offered,
            enhanced_status_codes="ENHANCEDSTATUSCODES" in offered,
            mechanisms=frozenset(offered.get("AUTH", [])),
        )


def _extensions(lines: Iterable[bytes]) -> Iterable[tuple[str, list[str]]]:
    """Keyword and parameters; `AUTH=LOGIN`, as some old servers write it, is AUTH too."""
    for line in lines:
        words = line.decode("ascii", "replace").upper().replace("AUTH=", "AUTH ", 1).split()
        if words:
            yield words[0], words[1:]
