"""Submitting from code that does not await: scripts, Django views, threads.

A thread of its own runs an event loop with a store of its own; each call waits for its answer, so it too
returns only after the durable write. The thread starts with the first call and again after a fork.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from redrive.core.ports import Receipt
from redrive.engine.entries import Submission
from redrive.function import SubmitOptions
from redrive.machine.forks import keep, watch
from redrive.wiring import import_store

if TYPE_CHECKING:
    from email.message import EmailMessage

    from redrive.app import Redrive
    from redrive.mail.writing.mail import Mail

T = TypeVar("T")


class SyncRedrive:
    """The submitting half of an app, for callers without an event loop."""

    def __init__(self, app: Redrive, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._app = app
        self._leave = leave
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Imported here, not in the thread: a fork in the middle of an import leaves the child waiting for it.
        import_store(app.settings.store)
        watch(self)

    def submit(self, queue: str, payload: object, **options: Unpack[SubmitOptions]) -> Receipt:
        """As `Redrive.submit`."""
        return self.wait(self._app.submit(queue, payload, **options))

    def submit_many(self, queue: str, submissions: Iterable[Submission[object]]) -> list[Receipt]:
        """As `Redrive.submit_many`."""
        return self.wait(self._app.submit_many(queue, list(submissions)))

    def submit_mail(
        self,
        mail: Mail | EmailMessage,
        *,
        tenant: str,
        dedupe: str | None = None,
        ttl: timedelta | float | None = None,
    ) -> Receipt:
        """As `app.mail.submit`."""
        return self.wait(self._app.mail.submit(mail, tenant=tenant, dedupe=dedupe, ttl=ttl))

    def forked(self) -> None:
        """In a child: neither the thread nor whoever held the lock came along."""
        keep(self._loop)
        self._lock, self._loop = threading.Lock(), None

    def close(self) -> None:
        """Close the store and end the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._leave(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """What a coroutine answers, run by the thread's event loop: `app.sync.wait(app.mail.find(id))`."""
        return asyncio.run_coroutine_threadsafe(call, self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=self._run, args=(self._loop,), daemon=True)
                thread.name = "redrive-sync"
                thread.start()
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        loop.run_forever()
        loop.close()
