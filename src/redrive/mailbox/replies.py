"""What the mailbox says: a reply as the bytes that go to the client, and the fixed ones by name.

Every reply of ours that may carry an enhanced status code carries one. Knows no state.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SimulatedReply:
    """One reply, of one line or several. A 421 ends the session."""

    code: int
    lines: tuple[str, ...]
    encoded: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        *first, last = self.lines
        text = "".join(f"{self.code}-{line}\r\n" for line in first) + f"{self.code} {last}\r\n"
        object.__setattr__(self, "encoded", text.encode("utf-8"))

    @property
    def text(self) -> str:
        """As a client would show it."""
        return f"{self.code} {' '.join(self.lines)}"


def reply(code: int, *lines: str) -> SimulatedReply:
    """A reply of these lines."""
    return SimulatedReply(code, lines)


BYE = reply(221, "2.0.0 goodbye")
DONE = reply(250, "2.0.0 ok")
SENDER_ACCEPTED = reply(250, "2.1.0 sender ok")
RECIPIENT_ACCEPTED = reply(250, "2.1.5 recipient ok")
GO_AHEAD = reply(354, "send the content, end it with a dot on a line of its own")
READY_FOR_TLS = reply(220, "2.0.0 ready for TLS")
AUTHENTICATED = reply(235, "2.7.0 authenticated")
VERIFY_LATER = reply(252, "2.5.0 not verified; a mail to it may be accepted")
HELP = reply(214, "2.0.0 the recipient's local part chooses what happens")

IDLE = reply(421, "4.4.2 no command for too long, goodbye")
TOO_MANY_MESSAGES = reply(421, "4.7.0 too many messages in this session, connect again")

STORAGE_FULL = reply(452, "4.3.1 the mail could not be written; see the mailbox's folder")
TOO_MANY_RECIPIENTS = reply(452, "4.5.3 too many recipients, send the rest in another transaction")

UNKNOWN_COMMAND = reply(500, "5.5.1 unknown command")
BARE_LINE_END = reply(500, "5.5.2 bare CR or LF: end every command with CR LF")
LINE_TOO_LONG = reply(500, "5.5.2 command line too long, goodbye")
NOT_TEXT = reply(500, "5.5.2 the command is neither ASCII nor UTF-8 text")
BAD_ARGUMENT = reply(501, "5.5.4 syntax error in the arguments")
BAD_BASE64 = reply(501, "5.5.2 not base64")
AUTH_CANCELLED = reply(501, "5.7.0 authentication cancelled")
NOT_IMPLEMENTED = reply(502, "5.5.1 command not implemented")
GREET_FIRST = reply(503, "5.5.1 say EHLO first")
MAIL_FIRST = reply(503, "5.5.1 MAIL first")
NESTED_MAIL = reply(503, "5.5.1 a transaction is under way: RSET or finish it")
NOT_NOW = reply(503, "5.5.1 not now")
OUT_OF_STEP = reply(503, "5.5.0 commands were sent before the answer they had to wait for, goodbye")
UNKNOWN_MECHANISM = reply(504, "5.5.4 unknown authentication mechanism")
AUTHENTICATE_FIRST = reply(530, "5.7.0 authentication required")
AUTH_REFUSED = reply(535, "5.7.8 user name or password is wrong")
SIZE_EXCEEDED = reply(552, "5.3.4 the message is larger than this server takes")
NEEDS_SMTPUTF8 = reply(553, "5.6.7 an address beyond ASCII needs SMTPUTF8")
NO_RECIPIENTS = reply(554, "5.5.1 no valid recipients")
BARE_LINE_END_IN_CONTENT = reply(554, "5.6.0 bare CR or LF in the content: end every line with CR LF")
CONTENT_LINE_TOO_LONG = reply(554, "5.6.0 a line of the content is longer than 998 characters")
UNKNOWN_PARAMETER = reply(555, "5.5.4 unknown parameter")
