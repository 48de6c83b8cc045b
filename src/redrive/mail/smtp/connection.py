"""One connection to a mail server: moves bytes between a socket and the dialogue, and watches the time.

Driven by callbacks, without a task of its own: a reply that asks for content is answered in the same
turn of the event loop, and the next waiting envelope goes out in the same write as a final dot. A
timeout, an odd line, a drop or a cancelled caller closes the connection; every envelope in
flight is then told whether its final dot had been written. Known weakness: an envelope that went
out behind another's final dot waits for that one's answer.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Protocol, cast

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.dialogue import Answered, Broken, Dialogue, DialogueState, Event, Finished, GoAhead
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import Dropped, ProtocolError, SmtpError, SmtpPhase, TimedOut, Unsupported
from redrive.mail.smtp.transaction import RecipientReply, Sending, Transaction
from redrive.mail.smtp.watchdog import Watchdog

# A plain Protocol allocates 256 KiB for each read, which costs more than the read itself.
_BUFFER = 8_192


class Owner(Protocol):
    """Who gives a connection its work."""

    def next_sending(self, connection: Connection) -> Sending | None:
        """An envelope to send along with a final dot, if one waits."""
        ...

    def released(self, connection: Connection) -> None:
        """Everything the connection had to do is done; it may be given more."""
        ...

    def closed(self, connection: Connection) -> None:
        """The connection is gone."""
        ...


class Connection(asyncio.BufferedProtocol):
    """A connection and what is in flight on it. Made by `opening.open_connection`."""

    def __init__(self, owner: Owner, settings: SmtpSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._settings = settings
        self._limits_s = _limits_s(settings)
        self._block_s = settings.block_s
        self._buffer = memoryview(bytearray(_BUFFER))
        self._watchdog = Watchdog(self._loop, self._time_out)
        self._in_flight: deque[Sending] = deque()
        self._content: Transaction | None = None
        self._paused = False
        self._failure: SmtpError | None = None
        self._closed = asyncio.Event()
        self._answer: asyncio.Future[Answered] = self._loop.create_future()
        self._idle_since = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self.dialogue = Dialogue()
        self.opened_at = self._loop.time()
        self.messages = 0

    @property
    def usable(self) -> bool:
        """Whether an envelope may be started."""
        return self._failure is None and not self._in_flight and self.dialogue.ready

    @property
    def own_address(self) -> str:
        """The address we come from, as the socket has it."""
        return str(self._transport.get_extra_info("sockname")[0]) if self._transport is not None else ""

    def start(self, sending: Sending) -> bool:
        """Begin an envelope on a free connection; False when it failed at once, with nothing written."""
        if not self.usable:
            sending.fail(self._failure or Dropped("the connection is not free", phase=SmtpPhase.CONNECT))
            return False
        stale = self._loop.time() - self._idle_since > self._settings.probe_after_s
        if not self._begin(sending, stale=stale):
            return False
        self._flush()
        self._watch()
        return True

    async def send(self, envelope: Envelope) -> tuple[RecipientReply, ...]:
        """Send one envelope on a free connection that nobody else uses."""
        sending = Sending(envelope)
        self.start(sending)
        return await sending.wait()

    def abandon(self, sending: Sending) -> None:
        """Its caller was cancelled. What is ahead of it in the same connection is answered first."""
        if self._in_flight and self._in_flight[0] is sending:
            self.fail(Dropped, "given up by its caller")

    def require(self) -> None:
        """Raise what ended the connection, if anything did: a server may leave right after its answer."""
        if self._failure is not None:
            raise self._failure

    async def exchange(self) -> Answered:
        """Write what the dialogue has to say outside of an envelope and wait for the answer."""
        self.require()
        self._flush()
        self._watch()
        answered = await self._answer
        self._answer = self._loop.create_future()
        return answered

    async def secure(self, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        """The TLS handshake after STARTTLS was accepted; raises whatever the handshake raises."""
        self.require()
        self._watchdog.stop()
        transport = await self._loop.start_tls(
            cast(asyncio.Transport, self._transport),
            self,
            context,
            server_hostname=host,
            ssl_handshake_timeout=timeout_s,
        )
        if transport is None:
            raise ConnectionResetError("the connection was lost during the TLS handshake")
        self._transport = transport
        self.dialogue.secured()

    def quit(self) -> None:
        """Say goodbye and close, within a short bound; what is in flight is dropped."""
        if self._failure is not None or self.dialogue.state is DialogueState.LEAVING:
            return
        if self._in_flight or self.dialogue.phase is not SmtpPhase.READY:
            self.fail(Dropped, "closed by us")
            return
        self.dialogue.quit()
        self._flush()
        self._watch()

    async def close(self) -> None:
        """`quit`, and wait until the socket is closed."""
        self.quit()
        await self._closed.wait()

    def fail(self, kind: type[SmtpError], problem: str) -> None:
        """Close at once. The first in flight gets the error, those behind it are dropped."""
        if self._failure is not None:
            return
        self._failure = kind(problem, phase=self.dialogue.phase)
        self._watchdog.stop()
        if self._transport is not None:
            self._transport.abort()
        in_flight, self._in_flight = self._in_flight, deque()
        for sending in in_flight:
            _end(sending, kind, problem)
            kind = Dropped
        if not self._answer.done():
            self._answer.set_exception(self._failure)
            self._answer.exception()
        self._owner.closed(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        answered, busy = self.dialogue.answered, bool(self._in_flight)
        for event in self.dialogue.receive(bytes(self._buffer[:nbytes])):
            self._handle(event)
            if self._failure is not None:
                return
        if self.dialogue.leaving:
            self.fail(Dropped, "the server closes the connection (421)")
            return
        self._flush()
        if self.dialogue.answered != answered:
            self._watch()
        if busy and not self._in_flight:
            self._idle_since = self._loop.time()
            self._owner.released(self)

    def connection_lost(self, exc: Exception | None) -> None:
        why = f" ({exc})" if exc is not None else ""
        self.fail(Dropped, f"the connection was lost{why}")
        self._closed.set()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._content is not None and self._failure is None:
            self._send_content(self._content)
            self._flush()
            self._watch()

    def _handle(self, event: Event) -> None:
        match event:
            case Answered(phase=SmtpPhase.QUIT):
                self.fail(Dropped, "closed by us")
            case Answered() if not self._answer.done():
                self._answer.set_result(event)
            case Answered():
                self.fail(ProtocolError, "the server answered what nobody asked")
            case GoAhead(transaction=transaction):
                self._send_content(transaction)
            case Finished():
                self._finish()
            case Broken(error=error):
                self.fail(ProtocolError, error.problem)

    def _finish(self) -> None:
        self._content = None
        self._in_flight.popleft().finish()
        if self._in_flight and self._in_flight[0].future.cancelled():
            self.fail(Dropped, "given up by its caller")

    def _send_content(self, transaction: Transaction) -> None:
        """Blocks as long as the socket takes them; `resume_writing` goes on. Not a byte to a lost socket,
        so that `after_dot` stays false where the dot cannot have left."""
        self._content = transaction
        while self._content is not None and not self._paused and not self._is_closing():
            if self.dialogue.send_block(transaction):
                self._content = None
                self._begin_next()
            else:
                self._flush()

    def _begin_next(self) -> None:
        while self.dialogue.ready:
            sending = self._owner.next_sending(self)
            if sending is None or self._begin(sending):
                return

    def _begin(self, sending: Sending, *, stale: bool = False) -> bool:
        try:
            sending.transaction = self.dialogue.begin(sending.envelope, probe=stale)
        except Unsupported as error:
            sending.fail(error)
            return False
        sending.connection = self
        sending.reused = stale or self.messages > 0
        self.messages += 1
        self._in_flight.append(sending)
        return True

    def _flush(self) -> None:
        data = self.dialogue.take_outgoing()
        if data and self._transport is not None:
            self._transport.write(data)

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _watch(self) -> None:
        content = self._content is not None
        self._watchdog.watch(self._block_s if content else self._limits_s[self.dialogue.phase])

    def _time_out(self, limit_s: float) -> None:
        if self.dialogue.phase is SmtpPhase.READY:
            self.quit()
        else:
            self.fail(TimedOut, f"no answer within {limit_s:g} s")


def _end(sending: Sending, kind: type[SmtpError], problem: str) -> None:
    """Replies that decide every recipient count, even if the connection ended right after them."""
    transaction = sending.transaction
    if transaction is None or transaction.decided:
        sending.finish()
    else:
        sending.fail(
            kind(
                problem,
                phase=transaction.phase,
                after_dot=transaction.after_dot,
                recipients=transaction.replies(),
            )
        )


def _limits_s(settings: SmtpSettings) -> dict[SmtpPhase, float]:
    special = {
        SmtpPhase.GREETING: settings.greeting_s,
        SmtpPhase.READY: settings.idle_s,
        SmtpPhase.RESET: settings.probe_s,
        SmtpPhase.DATA: settings.data_s,
        SmtpPhase.FINAL: settings.final_s,
        SmtpPhase.QUIT: settings.quit_s,
    }
    return {phase: special.get(phase, settings.command_s) for phase in SmtpPhase}
