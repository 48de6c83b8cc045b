"""SMTP from the client's side, without I/O: commands become bytes to send, bytes received become events.

Everything that affects the state of a connection is in this file. SENDS says which command may be
written in which state and ANSWERS what each command may be answered with; a pair that is in neither is
a bug of ours, or an oddity of the server after which the connection is closed. With PIPELINING an
envelope goes in one write, and the next one with the final dot before it (RFC 2920). Without it, each
command waits for its reply. Never reads a clock, opens a socket or knows a password.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from redrive.mail.smtp.envelope import Capabilities, Envelope, mail_command, recipient_command
from redrive.mail.smtp.errors import ProtocolError, SmtpPhase
from redrive.mail.smtp.reply_parser import ReplyParser, ServerReply
from redrive.mail.smtp.transaction import Transaction

SERVICE_CLOSING = 421


class DialogueState(StrEnum):
    """What may be sent next. Replies to what was sent before may still be under way."""

    CONNECTED = "connected"
    GREETED = "greeted"
    READY = "ready"
    SECURING = "securing"
    ENVELOPE = "envelope"
    CONTENT = "content"
    LEAVING = "leaving"
    BROKEN = "broken"


class Meaning(Enum):
    """What a reply says of its command."""

    ACCEPTED = "accepted"
    CONTINUE = "continue"
    REFUSED = "refused"


SENDS: Mapping[tuple[DialogueState, SmtpPhase], DialogueState] = {
    (DialogueState.GREETED, SmtpPhase.EHLO): DialogueState.GREETED,
    (DialogueState.READY, SmtpPhase.STARTTLS): DialogueState.READY,
    (DialogueState.READY, SmtpPhase.AUTH): DialogueState.READY,
    (DialogueState.READY, SmtpPhase.RESET): DialogueState.READY,
    (DialogueState.READY, SmtpPhase.MAIL): DialogueState.ENVELOPE,
    (DialogueState.ENVELOPE, SmtpPhase.RCPT): DialogueState.ENVELOPE,
    (DialogueState.ENVELOPE, SmtpPhase.DATA): DialogueState.ENVELOPE,
    (DialogueState.CONTENT, SmtpPhase.FINAL): DialogueState.READY,
    (DialogueState.GREETED, SmtpPhase.QUIT): DialogueState.LEAVING,
    (DialogueState.READY, SmtpPhase.QUIT): DialogueState.LEAVING,
}

_ACCEPTED: Mapping[tuple[SmtpPhase, int], tuple[Meaning, DialogueState | None]] = {
    (SmtpPhase.GREETING, 2): (Meaning.ACCEPTED, DialogueState.GREETED),
    (SmtpPhase.EHLO, 2): (Meaning.ACCEPTED, DialogueState.READY),
    (SmtpPhase.STARTTLS, 2): (Meaning.ACCEPTED, DialogueState.SECURING),
    (SmtpPhase.AUTH, 2): (Meaning.ACCEPTED, None),
    (SmtpPhase.AUTH, 3): (Meaning.CONTINUE, None),
    (SmtpPhase.RESET, 2): (Meaning.ACCEPTED, None),
    (SmtpPhase.MAIL, 2): (Meaning.ACCEPTED, None),
    (SmtpPhase.RCPT, 2): (Meaning.ACCEPTED, None),
    (SmtpPhase.DATA, 3): (Meaning.CONTINUE, DialogueState.CONTENT),
    (SmtpPhase.FINAL, 2): (Meaning.ACCEPTED, None),
    (SmtpPhase.QUIT, 2): (Meaning.ACCEPTED, None),
}
# A refused RSET leaves a server in a state that nobody knows, so it is no answer at all.
_REFUSED: Mapping[tuple[SmtpPhase, int], tuple[Meaning, DialogueState | None]] = {
    (phase, digit): (Meaning.REFUSED, DialogueState.READY if phase is SmtpPhase.DATA else None)
    for phase, _ in _ACCEPTED
    if phase is not SmtpPhase.RESET
    for digit in (4, 5)
}
ANSWERS = {**_ACCEPTED, **_REFUSED}


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply to a command that belongs to no envelope."""

    phase: SmtpPhase
    meaning: Meaning
    reply: ServerReply


@dataclass(frozen=True, slots=True)
class GoAhead:
    """The server waits for this envelope's content: call `send_block` until it says True."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Finished:
    """Everything about this envelope is answered."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Broken:
    """The server was odd: always the last event."""

    error: ProtocolError


Event = Answered | GoAhead | Finished | Broken


class Dialogue:
    """One connection's side of the conversation, from the greeting on."""

    def __init__(self) -> None:
        self.state = DialogueState.CONNECTED
        self.capabilities = Capabilities()
        self.leaving = False
        """The server said 421: it closes the connection, whatever was asked."""
        self.answered = 0
        """Replies taken so far; a deadline moves only when this does."""
        self._parser = ReplyParser()
        self._expected: deque[tuple[SmtpPhase, Transaction | None]] = deque([(SmtpPhase.GREETING, None)])
        self._outgoing: list[bytes] = []
        self._sending: Transaction | None = None
        self._stale = False

    @property
    def phase(self) -> SmtpPhase:
        """What the server is to answer next; DATA while content goes out, READY when nothing is open."""
        if self._expected:
            return self._expected[0][0]
        return SmtpPhase.DATA if self.state is DialogueState.CONTENT else SmtpPhase.READY

    @property
    def ready(self) -> bool:
        """Whether an envelope may begin now, be it behind a final dot that is not answered yet."""
        free = self.capabilities.pipelining or not self._expected
        return self.state is DialogueState.READY and free and not self.leaving

    def take_outgoing(self) -> bytes:
        """What is to be written now, once."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def introduce(self, name: str, verb: str = "EHLO") -> None:
        """EHLO, or HELO for a server that knows no other."""
        self._send(SmtpPhase.EHLO, f"{verb} {name}\r\n".encode("ascii"))

    def start_tls(self) -> None:
        """Ask for TLS. After the handshake call `secured`."""
        self._send(SmtpPhase.STARTTLS, b"STARTTLS\r\n")

    def secured(self) -> None:
        """The handshake is done: whatever was learned or received before it counts for nothing."""
        if self.state is not DialogueState.SECURING:
            raise _odd("something odd before the TLS handshake")
        self.capabilities = Capabilities()
        self.state = DialogueState.GREETED

    def authenticate(self, line: bytes) -> None:
        """An AUTH command, or the answer to a server's challenge."""
        self._send(SmtpPhase.AUTH, line + b"\r\n")

    def quit(self) -> None:
        """Say goodbye; nothing may be sent after it."""
        self._send(SmtpPhase.QUIT, b"QUIT\r\n")

    def begin(self, envelope: Envelope, *, probe: bool = False) -> Transaction:
        """Open a transaction; Unsupported, with nothing sent, when the server cannot carry it.

        RSET goes first as a `probe` of an idle connection, and after a transaction that was refused.
        """
        transaction = Transaction(envelope)
        left = transaction.left
        if probe or self._stale:
            left.append((SmtpPhase.RESET, b"RSET\r\n"))
        left.append((SmtpPhase.MAIL, mail_command(envelope, self.capabilities)))
        left.extend((SmtpPhase.RCPT, recipient_command(name)) for name in envelope.recipients)
        left.append((SmtpPhase.DATA, b"DATA\r\n"))
        self._stale = False
        self._advance(transaction)
        return transaction

    def send_block(self, transaction: Transaction) -> bool:
        """The next part of the content; True when the final dot went with it."""
        block, last = transaction.next_block()
        self._outgoing.append(block)
        if last:
            transaction.after_dot = True
            self._sending = None
            self._send(SmtpPhase.FINAL, b".\r\n", transaction)
        return last

    def receive(self, data: bytes) -> list[Event]:
        """What the bytes mean, in order. Never raises: an oddity is a last event, Broken."""
        events: list[Event] = []
        try:
            for reply in self._parser.feed(data):
                event = self._take(reply)
                if event is not None:
                    events.append(event)
            self._check_handshake(quiet=self._parser.empty)
        except ProtocolError as error:
            self.state = DialogueState.BROKEN
            events.append(Broken(error))
        return events

    def _check_handshake(self, *, quiet: bool) -> None:
        if self.state is DialogueState.SECURING and not quiet:
            raise _odd("bytes before the TLS handshake, which may be an attack")

    def _send(self, phase: SmtpPhase, line: bytes, transaction: Transaction | None = None) -> None:
        after = SENDS.get((self.state, phase))
        if after is None:
            raise RuntimeError(f"{phase} cannot be sent while the connection is {self.state}")
        self.state = after
        self._outgoing.append(line)
        self._expected.append((phase, transaction))

    def _advance(self, transaction: Transaction) -> None:
        """Send what may go of an envelope's commands: all with PIPELINING, else the next."""
        while transaction.left:
            self._send(*transaction.left.popleft(), transaction)
            if not self.capabilities.pipelining:
                return

    def _take(self, reply: ServerReply) -> Event | None:
        self.answered += 1
        self.leaving = self.leaving or reply.code == SERVICE_CLOSING
        if not self._expected:
            return self._take_early(reply)
        phase, transaction = self._expected[0]
        answer = ANSWERS.get((phase, reply.code // 100))
        if answer is None:
            raise _odd(f"{reply.code} as an answer to {phase}")
        self._expected.popleft()
        meaning, after = answer
        self.state = after or self.state
        if transaction is not None:
            return self._take_of(transaction, phase, meaning, reply)
        if phase is SmtpPhase.EHLO and meaning is Meaning.ACCEPTED:
            self.capabilities = Capabilities.parse(reply)
        return Answered(phase, meaning, reply)

    def _take_early(self, reply: ServerReply) -> Event:
        """A refusal in the middle of the content counts; any other reply that nobody asked for is odd."""
        self._check_handshake(quiet=False)
        transaction = self._sending
        if transaction is None or reply.code < 400:
            raise _odd(f"{reply.code}, which nobody asked for")
        transaction.take(SmtpPhase.DATA, reply)
        self.leaving = True
        return Finished(transaction)

    def _take_of(
        self, transaction: Transaction, phase: SmtpPhase, meaning: Meaning, reply: ServerReply
    ) -> Event | None:
        if phase is not SmtpPhase.RESET:
            transaction.take(phase, reply)
        if meaning is Meaning.CONTINUE:
            return self._go_ahead(transaction)
        if phase in (SmtpPhase.DATA, SmtpPhase.FINAL):
            return self._finish(transaction)
        return self._go_on(transaction) if transaction.left else None

    def _go_on(self, transaction: Transaction) -> Event | None:
        """In lock-step: the next command, or the end where no command can change the outcome."""
        if transaction.decided:
            self.state = DialogueState.READY
            return self._finish(transaction)
        self._advance(transaction)
        return None

    def _go_ahead(self, transaction: Transaction) -> Event | None:
        """Send the content if anyone was accepted; else a lone dot ends what nobody gets (RFC 2920)."""
        if transaction.begun and transaction.wanted:
            self._sending = transaction
            return GoAhead(transaction)
        if transaction.wanted:
            raise _odd("a go-ahead for a sender that it had refused")
        self._send(SmtpPhase.FINAL, b".\r\n", transaction)
        return None

    def _finish(self, transaction: Transaction) -> Event:
        self._stale = self._stale or not transaction.clean
        return Finished(transaction)


def _odd(what: str) -> ProtocolError:
    return ProtocolError(f"the server sent {what}; the connection was closed", phase=SmtpPhase.READY)
