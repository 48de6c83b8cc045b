"""What was received and what was tried: kept in memory within bounds, found again, and waited for.

The oldest mails and attempts go first; `total`, `duplicates` and `tried` count on. A duplicate is told by
Message-ID and recipient, also of a mail that has gone, as far back as `memory.MOST` mails. With a
folder, a mail is kept only once it is written there.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from redrive.mailbox import folder as folders
from redrive.mailbox.content import Headers
from redrive.mailbox.memory import MOST, Bounded
from redrive.mailbox.received import Attempt, Received
from redrive.mailbox.settings import MailboxSettings


class Inbox:
    """The mails and attempts of one mailbox."""

    def __init__(self, settings: MailboxSettings, folder: Path | None = None) -> None:
        self._settings = settings
        self._received: deque[Received] = deque()
        self._bytes = 0
        self._known: Bounded[tuple[str, str], int] = Bounded(MOST)
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._next_id = 1
        self._folder = None if folder is None else folders.Folder(folder)
        self.attempts: deque[Attempt] = deque(maxlen=settings.keep_attempts)
        self.total = 0
        self.duplicates = 0
        self.tried = 0
        if self._folder is not None and folder is not None:
            self._reopen(self._folder, folder)

    @property
    def received(self) -> tuple[Received, ...]:
        """What is kept, oldest first."""
        return tuple(self._received)

    def keep(self, sender: str, recipients: tuple[str, ...], headers: Headers, content: bytes) -> Received:
        """Take a mail; OSError when its folder refuses it, and then nothing was kept."""
        mail = Received(
            self._next_id,
            time.time_ns() // 1_000_000,
            sender,
            recipients,
            headers.message_id,
            headers.subject,
            headers.tenant,
            self._first_of(headers.message_id, recipients),
            content,
        )
        if self._folder is not None:
            self._folder.keep(mail)
        self._next_id += 1
        self._add(mail)
        self._forget_oldest()
        if self._waiting:
            self._wake()
        return mail

    def note(self, attempt: Attempt) -> None:
        """Remember what was said about a recipient."""
        self.attempts.append(attempt)
        self.tried += 1
        if self._waiting:
            self._wake()

    def find(self, to: str | None, subject: str | None) -> list[Received]:
        """Mails to exactly this address, case aside, whose subject holds these words."""
        wanted = None if to is None else to.lower()
        return [
            mail
            for mail in self._received
            if (wanted is None or any(wanted == address.lower() for address in mail.recipients))
            and (subject is None or subject in mail.subject)
        ]

    def clear(self) -> None:
        """Forget and remove everything; ids go on."""
        gone = list(self._received)
        self._received.clear()
        self._known.clear()
        self.attempts.clear()
        self._bytes = self.total = self.duplicates = self.tried = 0
        if self._folder is not None:
            self._folder.rewrite(())
            for mail in gone:
                self._folder.forget(mail, (), 0)

    async def wait_until(self, met: Callable[[], bool], timeout_s: float) -> bool:
        """Until a condition on what was received or tried is met; False when it was not in time."""
        if met():
            return True
        future = asyncio.get_running_loop().create_future()
        waiting = (met, future)
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(waiting)
        return True

    def close(self) -> None:
        """Let go of the folder; what is in memory can still be read."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _reopen(self, folder: folders.Folder, path: Path) -> None:
        for mail in folders.latest(path):
            self._add(mail)
            self._next_id = mail.id + 1
        folder.open(self._received)
        self._forget_oldest()

    def _add(self, mail: Received) -> None:
        self._received.append(mail)
        self._bytes += len(mail.content)
        self.total += 1
        self.duplicates += mail.duplicate_of is not None
        if mail.message_id is not None:
            for address in mail.recipients:
                key = (mail.message_id, address.lower())
                if self._known.get(key) is None:
                    self._known.put(key, mail.id)

    def _first_of(self, message_id: str | None, recipients: tuple[str, ...]) -> int | None:
        if message_id is None:
            return None
        for address in recipients:
            first = self._known.get((message_id, address.lower()))
            if first is not None:
                return first
        return None

    def _forget_oldest(self) -> None:
        """Down to the bounds; the newest mail always stays."""
        settings, received = self._settings, self._received
        while len(received) > 1 and (
            len(received) > settings.keep_messages or self._bytes > settings.keep_bytes
        ):
            mail = received.popleft()
            self._bytes -= len(mail.content)
            if self._folder is not None:
                self._folder.forget(mail, received, len(received))

    def _wake(self) -> None:
        for met, future in self._waiting:
            if not future.done() and met():
                future.set_result(None)
