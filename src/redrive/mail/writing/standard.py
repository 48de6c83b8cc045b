"""What is left to the standard `email` package when a mail is rendered: mails inside mails.

An attached mail must travel as 7 bit lines (RFC 2046). One that is not so already is read and written
again by the standard package, which encodes its parts anew; its headers keep their lines.
"""

from __future__ import annotations

import re
from email import message_from_bytes
from email.errors import MessageError
from email.policy import SMTP

_SEVEN_BIT = SMTP.clone(cte_type="7bit", refold_source="none")
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")


def as_seven_bit(mail: bytes, longest_line: int) -> bytes | None:
    """The mail in ASCII lines that are short enough, or None when that cannot be done."""
    mail = _LINE_BREAK.sub(b"\r\n", mail)
    if _fits(mail, longest_line):
        return mail
    try:
        written = message_from_bytes(mail, policy=_SEVEN_BIT).as_bytes()
    except (MessageError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return written if _fits(written, longest_line) else None


def _fits(mail: bytes, longest_line: int) -> bool:
    return mail.isascii() and b"\0" not in mail and max(map(len, mail.split(b"\r\n"))) <= longest_line
