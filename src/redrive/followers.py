"""What an app runs on dead letters: the functions of `on_dead`, each served as a queue of its own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from redrive.core.errors import ConfigurationError

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.core.letters import DeadLetter
    from redrive.core.retry import RetryPolicy
    from redrive.core.settings import QueueSettings
    from redrive.core.store import Store
    from redrive.office.deaths import Deaths
    from redrive.roster import Roster


class Followers:
    """The functions of one app, and the queues whose deaths they hear of."""

    def __init__(self, roster: Roster, ledger: Callable[[], Awaitable[Store]]) -> None:
        self._roster = roster
        self._ledger = ledger
        self._followed: list[str] = []

    def add(
        self,
        queue: str,
        function: Callable[[DeadLetter], Awaitable[None]],
        retry: RetryPolicy | None,
        chosen: QueueSettings,
    ) -> None:
        """Run a function for each new dead letter of a queue; one that does not await is refused."""
        from redrive.office.deaths import telling, told_in

        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(f"what runs on dead letters of {queue!r} awaits: write `async def`")
        self._roster.add(told_in(queue), telling(self._ledger, function), retry, chosen)
        self._followed.append(queue)

    def deaths(self, app: Redrive) -> list[Deaths]:
        """What follows the deaths of these queues, while the app is open."""
        from redrive.office.deaths import Deaths

        return [Deaths(app.office, queue, app.append) for queue in self._followed]
