"""An app's work in this process: its worker with the office's duties and the port for metrics beside it, and
the mail gateway that it may be. Whoever runs it holds the store open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from redrive.engine.process import stop_on_signals
from redrive.engine.runner import patiently

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.core.records import Document
    from redrive.core.store import Store
    from redrive.engine.worker import Worker
    from redrive.mail.gateway import Gateway


class AppWork:
    """What runs while `app.run()` does; `gateway` is set where the app serves mails."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._worker: Worker | None = None
        self.gateway: Gateway | None = None

    @property
    def ready(self) -> bool:
        """Whether the worker, if one runs, reaches its store."""
        return self._worker is None or self._worker.ready

    async def run(
        self, store: Store, queues: Collection[str], *, signals: bool, on_stuck: Callable[[], None]
    ) -> None:
        """Work until it is told to stop, then end gracefully."""
        from redrive.telemetry.port import answering

        await self._end_playground(store)
        app, worker = self._app, self._make_worker(store, queues, on_stuck)
        self._worker = worker
        try:
            async with app.on_duty(), answering(app.settings.metrics, self._scrape, self._is_ready):
                with stop_on_signals(worker.stop, wanted=signals):
                    await worker.run()
        finally:
            self._worker = None

    async def close(self) -> None:
        """Close the gateway's connections, unless a worker still uses them."""
        if self.gateway is not None and self._worker is None:
            await self.gateway.close()

    async def _end_playground(self, store: Store) -> None:
        """What goes through a relay is meant for somebody: the simulator may not have this store's mails."""
        if self.gateway is not None and self._app.settings.names_relay:
            from redrive.office.playground import end_playground

            await patiently("open", lambda: end_playground(store), self._app.telemetry)

    def _make_worker(self, store: Store, queues: Collection[str], on_stuck: Callable[[], None]) -> Worker:
        """A program that only submits never imports a worker."""
        from redrive.engine.worker import Worker

        app = self._app
        return Worker(
            store,
            app.served(queues),
            app.telemetry,
            app.settings.worker,
            app.settings.finished,
            policy=app.policy,
            retention=app.settings.retention,
            on_stuck=on_stuck,
            figures=self._figures,
        )

    def _figures(self) -> Document:
        """What this process says of itself beside its worker."""
        deadlines = {one.queue: one.settings.deadline_s for one in self._app.served()}
        figures: dict[str, Any] = {"deadlinesS": deadlines}
        if self.gateway is not None:
            figures |= {"smtp": self.gateway.connections(), "relay": self.gateway.outage()}
        return figures

    async def _is_ready(self) -> bool:
        return self.ready

    async def _scrape(self) -> str:
        from redrive.office.metrics import process_use, scrape, write_process

        made = await scrape(self._app.store)
        write_process(made, *process_use())
        return made.text()
