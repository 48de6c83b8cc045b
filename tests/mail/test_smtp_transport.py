"""A connection on a transport of the test's own: what only a socket in trouble would show."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.connection import Connection
from redrive.mail.smtp.errors import Dropped, ProtocolError, SmtpPhase
from redrive.mail.smtp.opening import Alone
from redrive.mail.smtp.transaction import Sending
from tests.mail.attempts import LARGE, MAIL


class Transport:
    """Keeps what is written. After `breaks_after` writes the socket is lost, and nobody knows yet."""

    def __init__(self, breaks_after: int = 1_000) -> None:
        self.written: list[bytes] = []
        self.breaks_after = breaks_after
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return len(self.written) >= self.breaks_after

    def abort(self) -> None:
        self.aborted = True


class OneMore(Alone):
    """An owner with one more envelope in line."""

    def __init__(self) -> None:
        self.follower: Sending | None = Sending(MAIL)

    def next_sending(self, connection: Connection) -> Sending | None:
        follower, self.follower = self.follower, None
        return follower


def receive(connection: Connection, *lines: str) -> None:
    data = "".join(f"{line}\r\n" for line in lines).encode()
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


async def connect(transport: Transport, owner: Alone) -> Connection:
    connection = Connection(owner, SmtpSettings())
    connection.connection_made(cast(asyncio.Transport, transport))
    receive(connection, "220 hello")
    await connection.exchange()
    connection.dialogue.introduce("us.example")
    receive(connection, "250-hello", "250 PIPELINING")
    await connection.exchange()
    return connection


async def test_a_dot_that_cannot_have_left_is_not_claimed_as_sent() -> None:
    transport = Transport(breaks_after=4)
    connection = await connect(transport, Alone())
    sending = Sending(LARGE)
    connection.start(sending)
    receive(connection, "250 ok", "250 ok", "354 go")
    connection.connection_lost(BrokenPipeError("broken pipe"))
    with pytest.raises(Dropped, match="broken pipe") as caught:
        await sending.wait()
    assert (caught.value.phase, caught.value.after_dot) == (SmtpPhase.DATA, False)
    assert len(transport.written) == 4


async def test_who_went_out_behind_another_is_dropped_whatever_happened_to_that_one() -> None:
    owner, transport = OneMore(), Transport()
    follower = owner.follower
    assert follower is not None
    connection = await connect(transport, owner)
    leader = Sending(MAIL)
    connection.start(leader)
    receive(connection, "250 ok", "250 ok", "354 go")
    assert transport.written[-1].endswith(
        b"\r\n.\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.org>\r\nDATA\r\n"
    )
    receive(connection, "nonsense")
    assert transport.aborted
    with pytest.raises(ProtocolError) as caught:
        await leader.wait()
    assert (caught.value.phase, caught.value.after_dot) == (SmtpPhase.FINAL, True)
    with pytest.raises(Dropped) as behind:
        await follower.wait()
    assert (behind.value.phase, behind.value.after_dot) == (SmtpPhase.MAIL, False)
    assert follower.reused
    assert follower.unanswered


async def test_an_accepted_mail_stays_accepted_when_nonsense_follows_in_the_same_bytes() -> None:
    connection = await connect(Transport(), Alone())
    sending = Sending(MAIL)
    connection.start(sending)
    receive(connection, "250 ok", "250 ok", "354 go")
    receive(connection, "250 taken", "nonsense")
    assert (await sending.wait())[0].accepted
    assert not connection.usable
