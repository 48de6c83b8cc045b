"""The server's side of one SMTP session, without I/O: bytes in, bytes out, and what to do next.

Strict about order, arguments and line ends, so that a client's mistake shows here and not in the field:
only commands that PIPELINING allows may be sent ahead, and a connection that is out of step is closed.
Known weakness: 8-bit content is taken also where BODY=8BITMIME was not said, as most servers do.
"""

from __future__ import annotations

from collections.abc import Callable

from redrive.mailbox import replies
from redrive.mailbox.addresses import parse_recipient, parse_sender
from redrive.mailbox.authentication import MECHANISMS, Exchange
from redrive.mailbox.behaviours import Behaviour, Point, Refuse, behaviour
from redrive.mailbox.replies import SimulatedReply, reply
from redrive.mailbox.settings import MailboxSettings
from redrive.mailbox.transaction import Happening, ServerTransaction, SharedState, note_refused_sender
from redrive.mailbox.wire import Intake, Next, Odd, Outlet

NAME = "mailbox.localhost"
_LAST_IN_GROUP = frozenset({"EHLO", "HELO", "DATA", "AUTH", "STARTTLS", "NOOP", "VRFY"})


class ServerSession:
    """One connection's dialogue."""

    def __init__(self, settings: MailboxSettings, desk: SharedState) -> None:
        self._settings = settings
        self._desk = desk
        self._intake = Intake(settings.size_bytes)
        self._outlet = Outlet()
        self._greeted = self._secured = self._authenticated = False
        self._exchange: Exchange | None = None
        self._transaction: ServerTransaction | None = None
        self._filling: ServerTransaction | None = None
        self._messages = 0
        self._outlet.say(reply(220, f"{NAME} ESMTP Redrive mailbox simulator"))

    @property
    def next(self) -> Next:
        return self._outlet.next

    @property
    def wait_s(self) -> float:
        """How long to wait where `next` is WAIT."""
        return self._outlet.wait_s

    def receive(self, data: bytes | memoryview) -> None:
        """Bytes from the client, acted on as far as `next` allows."""
        self._intake.add(data)
        self._go_on()

    def waited(self) -> None:
        """The delay has passed."""
        self._outlet.waited()
        self._go_on()

    def secured(self) -> None:
        """The TLS handshake is done: everything begins anew."""
        self._outlet.next = Next.READ
        self._secured, self._greeted, self._authenticated = True, False, False

    def time_out(self) -> None:
        """The client was silent for too long."""
        if self.next is Next.READ:
            self._outlet.say(replies.IDLE)
        self._outlet.next = Next.CLOSE

    def lost(self) -> None:
        """The connection is gone."""
        self._abandon()
        self._outlet.next = Next.CLOSE

    def take_output(self) -> bytes:
        """What is to be written now."""
        return self._outlet.take()

    def _go_on(self) -> None:
        outlet = self._outlet
        while outlet.next is Next.READ:
            filling = self._filling
            if not (self._read_line() if filling is None else self._read_content(filling)):
                return

    def _read_line(self) -> bool:
        line = self._intake.line()
        if line is None:
            return False
        if isinstance(line, Odd):
            self._outlet.close_with(replies.LINE_TOO_LONG)
            return True
        if b"\n" in line or b"\r" in line:
            self._outlet.say(replies.BARE_LINE_END)
            return True
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            self._outlet.say(replies.NOT_TEXT)
            return True
        if self._exchange is None:
            self._command(text)
        else:
            self._authenticate(self._exchange.step(text))
        return True

    def _read_content(self, transaction: ServerTransaction) -> bool:
        if self._intake.content_begun:
            plain = transaction.at(Point.CONTENT)
            if plain is not None:
                self._outlet.perform(Happening(plain, replies.DONE))
                return True
        lines = self._intake.content()
        if lines is None:
            return False
        self._filling = self._transaction = None
        self._messages += 1
        if self._intake.pending and not self._settings.pipelining:
            transaction.refuse_content(replies.OUT_OF_STEP)
            self._outlet.close_with(replies.OUT_OF_STEP)
        elif isinstance(lines, Odd):
            self._outlet.perform(transaction.refuse_content(replies.SIZE_EXCEEDED))
        else:
            self._outlet.perform(transaction.finish(lines))
        return True

    def _command(self, text: str) -> None:
        verb, blank, argument = text.partition(" ")
        verb = verb.upper()
        ahead = self._intake.pending and verb != "QUIT"
        if ahead and (verb in _LAST_IN_GROUP or not self._settings.pipelining):
            self._outlet.close_with(replies.OUT_OF_STEP)
            return
        command = _COMMANDS.get(verb)
        if command is None:
            self._outlet.say(replies.UNKNOWN_COMMAND)
        elif blank and verb in _WITHOUT_ARGUMENT:
            self._outlet.say(replies.BAD_ARGUMENT)
        else:
            command(self, argument)

    def _ehlo(self, argument: str) -> None:
        if self._greet(argument):
            self._outlet.say(reply(250, NAME, *self._extensions()))

    def _helo(self, argument: str) -> None:
        if self._greet(argument):
            self._outlet.say(reply(250, NAME))

    def _greet(self, argument: str) -> bool:
        if not argument.strip():
            self._outlet.say(replies.BAD_ARGUMENT)
            return False
        self._abandon()
        self._greeted = True
        return True

    def _extensions(self) -> list[str]:
        settings = self._settings
        offered = [f"SIZE {settings.size_bytes}", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"]
        if settings.pipelining:
            offered.append("PIPELINING")
        if settings.tls is not None and not self._secured:
            offered.append("STARTTLS")
        elif not self._authenticated:
            offered.append(f"AUTH {' '.join(MECHANISMS)}")
        return offered

    def _mail(self, argument: str) -> None:
        refusal = self._mail_refusal()
        if refusal is not None:
            self._outlet.say(refusal)
            return
        sender = parse_sender(argument, self._settings.size_bytes)
        if isinstance(sender, SimulatedReply):
            self._outlet.say(sender)
            return
        match behaviour(sender.address):
            case Behaviour(stage=Point.MAIL, action=Refuse(reply=said)):
                note_refused_sender(self._desk, sender.address, said)
                self._outlet.say(said)
            case _:
                self._transaction = ServerTransaction(sender, self._desk)
                self._outlet.say(replies.SENDER_ACCEPTED)

    def _mail_refusal(self) -> SimulatedReply | None:
        settings = self._settings
        if not self._greeted:
            return replies.GREET_FIRST
        if self._transaction is not None:
            return replies.NESTED_MAIL
        if settings.require_auth is not None and not self._authenticated:
            return replies.AUTHENTICATE_FIRST
        most = settings.max_messages_per_connection
        return replies.TOO_MANY_MESSAGES if most is not None and self._messages >= most else None

    def _rcpt(self, argument: str) -> None:
        transaction = self._transaction
        if transaction is None:
            self._outlet.say(replies.MAIL_FIRST)
            return
        address = parse_recipient(argument, smtputf8=transaction.sender.smtputf8)
        if isinstance(address, SimulatedReply):
            self._outlet.say(address)
        elif len(transaction.recipients) >= self._settings.recipients:
            transaction.refuse(address, Refuse(replies.TOO_MANY_RECIPIENTS))
            self._outlet.say(replies.TOO_MANY_RECIPIENTS)
        else:
            self._outlet.perform(transaction.add(address))

    def _data(self, argument: str) -> None:
        transaction = self._transaction
        if transaction is None:
            self._outlet.say(replies.MAIL_FIRST)
        elif not transaction.recipients:
            self._outlet.say(replies.NO_RECIPIENTS)
        else:
            plain = transaction.at(Point.DATA)
            self._outlet.perform(Happening(plain, replies.GO_AHEAD))
            if plain is None:
                self._filling = transaction
                self._intake.begin_content()

    def _auth(self, argument: str) -> None:
        allowed = self._settings.tls is None or self._secured
        if not self._greeted or self._authenticated or self._transaction is not None or not allowed:
            self._outlet.say(replies.NOT_NOW)
            return
        mechanism, _, initial = argument.partition(" ")
        self._exchange = Exchange(mechanism, self._settings)
        self._authenticate(self._exchange.begin(initial))

    def _authenticate(self, said: SimulatedReply) -> None:
        self._outlet.say(said)
        if said.code != 334:
            self._exchange = None
            self._authenticated = said is replies.AUTHENTICATED

    def _starttls(self, argument: str) -> None:
        if self._settings.tls is None:
            self._outlet.say(replies.NOT_IMPLEMENTED)
        elif self._secured or not self._greeted:
            self._outlet.say(replies.NOT_NOW)
        else:
            self._abandon()
            self._outlet.say(replies.READY_FOR_TLS)
            self._outlet.next = Next.START_TLS

    def _rset(self, argument: str) -> None:
        self._abandon()
        self._outlet.say(replies.DONE)

    def _quit(self, argument: str) -> None:
        self._abandon()
        self._outlet.close_with(replies.BYE)

    def _abandon(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.abandon()


def _always(said: SimulatedReply) -> Callable[[ServerSession, str], None]:
    return lambda session, argument: session._outlet.say(said)


_WITHOUT_ARGUMENT = frozenset({"DATA", "RSET", "QUIT", "STARTTLS"})
_COMMANDS: dict[str, Callable[[ServerSession, str], None]] = {
    "EHLO": ServerSession._ehlo,
    "HELO": ServerSession._helo,
    "MAIL": ServerSession._mail,
    "RCPT": ServerSession._rcpt,
    "DATA": ServerSession._data,
    "AUTH": ServerSession._auth,
    "STARTTLS": ServerSession._starttls,
    "RSET": ServerSession._rset,
    "QUIT": ServerSession._quit,
    "NOOP": _always(replies.DONE),
    "VRFY": _always(replies.VERIFY_LATER),
    "HELP": _always(replies.HELP),
    "EXPN": _always(replies.NOT_IMPLEMENTED),
    "BDAT": _always(replies.NOT_IMPLEMENTED),
    "ETRN": _always(replies.NOT_IMPLEMENTED),
    "TURN": _always(replies.NOT_IMPLEMENTED),
}
