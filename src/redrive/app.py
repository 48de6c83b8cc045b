"""What a developer holds: one app with handlers, a way to submit, and a way to run.

The app opens its store on first use, one for each event loop that uses it. It decides nothing: it
turns what the developer says into the engine's and the core's terms.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Self, TypeVar

from redrive.config import Settings
from redrive.core.message import DEFAULT_TENANT, Entry, Track
from redrive.core.ports import Receipt
from redrive.core.retry import RetryPolicy
from redrive.core.settings import QueueSettings
from redrive.engine.entries import Submission
from redrive.engine.handlers import Served
from redrive.engine.ids import new_id
from redrive.engine.process import end_when_stuck
from redrive.followers import Followers
from redrive.function import Answer, More, Payload, QueueFunction, plain
from redrive.intake import AppIntake
from redrive.opening import OpenedApp, Openings, make_opened
from redrive.roster import Roster, choose, refuse_bare
from redrive.sync import SyncRedrive
from redrive.telemetry.door import Telemetry
from redrive.telemetry.hooks import HookSink, make_hook
from redrive.telemetry.totals import TotalsSink
from redrive.wiring import (
    check_deadline,
    load,
    make_gateway,
    make_index,
    make_office,
    make_sinks,
    make_traces,
    on_duty,
)
from redrive.work import AppWork

if TYPE_CHECKING:
    from redrive.core.letters import DeadLetter
    from redrive.core.store import Store
    from redrive.dead_letters import DeadLetters
    from redrive.mail.desk import Desk
    from redrive.office.deaths import Deaths
    from redrive.office.index import Index
    from redrive.office.office import Office

Hooked = TypeVar("Hooked", bound=Callable[[Any], object])
Told = TypeVar("Told", bound="Callable[[DeadLetter], Awaitable[None]]")

_DEFAULT = QueueSettings()
_HOOK_LIMIT = timedelta(seconds=10)
_MAIL_DEADLINE = timedelta(minutes=20)


class Redrive:
    """Handlers with retries that never lose a message, on the store that configuration or `store` names.

    `store` and `profile` are defaults: redrive.toml, the environment and flags overrule them, and the
    start says so. `settings` is taken as it is, and no source is read.
    """

    def __init__(
        self, store: str | None = None, *, profile: str | None = None, settings: Settings | None = None
    ) -> None:
        given = {"store": store, "profile": profile}
        code = {name: value for name, value in given.items() if value is not None}
        self._settings = settings if settings is not None else load(code=code)
        self._totals = TotalsSink()
        self.telemetry = Telemetry(make_sinks(self._settings, self._totals), make_traces(self._settings))
        self._hooks = HookSink(self.telemetry)
        self._roster = Roster(self._settings)
        self._followers = Followers(self._roster, self._ledger)
        self._work = AppWork(self)
        self._openings = Openings(self._make_opened)
        self._intake = AppIntake(self, self._openings)

    @property
    def settings(self) -> Settings:
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Replace the settings, before the app is opened."""
        self._settings = settings
        self.telemetry.configure(make_sinks(settings, self._totals), make_traces(settings))
        self._roster.configure(settings)

    def handler(
        self,
        queue: str,
        *,
        retry: RetryPolicy | None = None,
        concurrency: int = _DEFAULT.concurrency,
        deadline: timedelta | float = _DEFAULT.deadline_s,
        rate: str | None = None,
        fair: bool = True,
    ) -> Callable[[Callable[Concatenate[Payload, More], Answer]], QueueFunction[Payload, More, Answer]]:
        """Serve a queue with the decorated function, `async def` or `def`; it gets a `submit` of its own.

        A number as `deadline` is seconds. Without `fair`, tenants do not take turns: what is due first runs
        first.
        """
        chosen = choose(queue, concurrency, deadline, rate, fair)

        def register(
            function: Callable[Concatenate[Payload, More], Answer],
        ) -> QueueFunction[Payload, More, Answer]:
            self._roster.add(queue, plain(function), retry, chosen)
            return QueueFunction(self, queue, plain(function))

        return register

    def on_dead(
        self,
        queue: str,
        *,
        retry: RetryPolicy | None = None,
        concurrency: int = _DEFAULT.concurrency,
        deadline: timedelta | float = _DEFAULT.deadline_s,
    ) -> Callable[[Told], Told]:
        """Run the decorated `async def` for each new dead letter of a queue, with retries of its own.

        It is served as the queue `QUEUE:on-dead`: at least once for each death, whichever process buried the
        message and whatever crashes, and not for a letter that is no longer dead when its turn comes. When
        it fails for good, that is a dead letter too.
        """
        chosen = choose(queue, concurrency, deadline, decorator="on_dead")

        def register(function: Told) -> Told:
            self._followers.add(queue, function, retry, chosen)
            return function

        return register

    def on(self, event: str, *, limit: timedelta | float = _HOOK_LIMIT) -> Callable[[Hooked], Hooked]:
        """Call the decorated function, `async def` or `def`, after each event of a kind in this process.

        It hears of news, `redrive.telemetry.events`, and the work does not wait for it: events that it is
        too slow for are dropped, and nothing is called again. What must happen belongs into `on_dead` or a
        handler. `limit` is how long a call may take; a number is seconds.
        """
        refuse_bare(event, "on", "an event", "dead")

        def register(function: Hooked) -> Hooked:
            self._hooks.add(make_hook(event, function, limit))
            return function

        return register

    def deaths(self) -> list[Deaths]:
        """What follows the deaths of the queues that have an `on_dead`."""
        return self._followers.deaths(self)

    async def submit(
        self,
        queue: str,
        payload: object,
        *,
        tenant: str = DEFAULT_TENANT,
        dedupe: str | None = None,
        delay: timedelta | float | None = None,
        at: datetime | None = None,
        ttl: timedelta | float | None = None,
        track: str = Track.MAIN,
        headers: Mapping[str, str] | None = None,
        message_id: str | None = None,
    ) -> Receipt:
        """Accept one message; returns after the durable write. A number as `delay` or `ttl` is seconds.

        Raises InvalidMessage, Conflict (the dedupe key has another body) or a StoreError. After a
        StoreUnavailable the message may have been accepted: submit again with the same `dedupe` or
        `message_id`.
        """
        submission = Submission(payload, tenant, dedupe, delay, at, ttl, track, headers or {}, message_id)
        return await self._intake.submit(queue, submission)

    async def submit_many(self, queue: str, submissions: Iterable[Submission[object]]) -> list[Receipt]:
        """Accept a batch of at most 1,000 messages and 8 MiB, all or nothing; an error names the index."""
        return await self._intake.submit_many(queue, submissions)

    @cached_property
    def sync(self) -> SyncRedrive:
        """Submitting for callers that do not await: `app.sync.submit(…)`, with a store of its own."""
        return SyncRedrive(self, self._leave)

    @property
    def mail(self) -> Desk:
        """Where mails are handed in and asked about: `await app.mail.submit(message, tenant=…)`."""
        from redrive.mail.desk import Desk
        from redrive.mail.stored import QUEUE

        return Desk(
            append=self.append,
            ledger=self._ledger,
            now=self._now,
            new_id=new_id,
            ttl_s=lambda: self.policy(QUEUE).ttl_s,
            senders=self.settings.sender_domains,
        )

    def serve_mail(self, *, concurrency: int = 50) -> None:
        """Serve `email:send`: this app is a mail gateway to the relay that the settings name."""
        from redrive.mail.stored import QUEUE

        gateway = make_gateway(self.settings, self.append, lambda: self.policy(QUEUE), self.telemetry.emit)
        self._work.gateway = gateway
        self.handler(QUEUE, concurrency=concurrency, deadline=_MAIL_DEADLINE)(gateway.handle)

    async def run(
        self,
        *,
        queues: Collection[str] = (),
        signals: bool = True,
        fail_fast: bool = False,
        on_stuck: Callable[[], None] = end_when_stuck,
    ) -> None:
        """Work until SIGTERM or SIGINT (or until cancelled), then end gracefully.

        `queues` serves only those of the app's queues. A store that does not answer at the start is waited
        for, unless `fail_fast`. `on_stuck` is called from another thread when a handler has blocked the
        event loop for longer than any handler may run: it ends the process, with code 1, unless you give
        another.
        """
        await self._openings.reach(self.telemetry, fail_fast=fail_fast)
        opened = await self._openings.enter(worker=True)
        try:
            await self._work.run(opened.store, queues, signals=signals, on_stuck=on_stuck)
        finally:
            await self._close(self._openings.leave(worker=True))

    @asynccontextmanager
    async def on_duty(self) -> AsyncIterator[None]:
        """Do the office's duties while inside: operations, retention, automatic re-drive."""
        await self._openings.ready()
        async with on_duty(self.office, self.settings, self.telemetry, self.deaths()):
            yield

    @property
    def ready(self) -> bool:
        """Whether the worker of this process, if one runs, reaches its store."""
        return self._work.ready

    async def open(self) -> Self:
        """Open the store now instead of on first use. Openings are counted: each has its `close`."""
        await self._openings.enter()
        return self

    @asynccontextmanager
    async def opened(self, *, fail_fast: bool = False) -> AsyncIterator[Self]:
        """Open while inside. A store that does not answer is waited for, unless `fail_fast`."""
        await self._openings.reach(self.telemetry, fail_fast=fail_fast)
        async with self:
            yield self

    async def close(self) -> None:
        """End an opening; the last one finishes the submits under way and closes the store.

        A running worker is an opening too: its store closes when it has ended.
        """
        await self._close(self._openings.leave())

    async def _leave(self) -> None:
        """End the opening of this loop alone; the gateway's connections belong to another."""
        opened = self._openings.leave()
        if opened is not None:
            await opened.close()

    async def _close(self, opened: OpenedApp | None) -> None:
        if opened is not None:
            await self._work.close()
            await opened.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def hooks_idle(self) -> None:
        """Wait until the functions of `on` have heard of what happened so far, for some seconds at most."""
        await self._openings.required.hooks.idle()

    @property
    def store(self) -> Store:
        """The opened store, for the office and for tests."""
        return self._openings.required.store

    @property
    def skew_ms(self) -> int:
        """How far a test has moved the clock of this app's stores."""
        return self._openings.skew_ms

    @skew_ms.setter
    def skew_ms(self, skew_ms: int) -> None:
        self._openings.skew_ms = skew_ms

    @property
    def is_open(self) -> bool:
        """Whether a store is open, for any event loop."""
        return self._openings.any

    @property
    def index(self) -> Index:
        """What finds the dead letters of the opened store; one for all who ask."""
        opened = self._openings.required
        if opened.index is None:
            opened.index = make_index(opened.store, self.settings)
        return opened.index

    @property
    def dead_letters(self) -> DeadLetters:
        """Find, count and group dead letters, re-drive and discard them; the audit names this process."""
        from redrive.dead_letters import DeadLetters
        from redrive.office.audit import this_account

        return DeadLetters(self._ready_office, this_account("python"))

    async def _ready_office(self) -> Office:
        await self._openings.ready()
        return self.office

    @property
    def office(self) -> Office:
        """What people do with messages and dead letters: `app.office.acting(Actor(…)).letters.find(…)`."""
        return make_office(self.store, self.index, self.policy, self.settings)

    def served(self, queues: Collection[str] = ()) -> Sequence[Served]:
        """The handlers, or those of `queues`, with what configuration says of their queues."""
        served = self._roster.served(queues)
        for one in served:
            check_deadline(self.settings, one.queue, one.settings.deadline_s)
        return served

    def policy(self, queue: str) -> RetryPolicy:
        """How a queue retries: profile, [retry], the handler's own, [queues.NAME]."""
        return self._roster.policy(queue)

    async def append(self, entries: Sequence[Entry]) -> list[Receipt]:
        """Accept entries that are already made and checked, all or nothing, beside other submits."""
        return await self._intake.append(entries)

    async def _ledger(self) -> Store:
        return (await self._openings.ready()).store

    async def _now(self) -> int:
        return (await self._openings.ready()).store.now()

    def _make_opened(self) -> OpenedApp:
        return make_opened(self.settings, self.telemetry, self._totals, self._hooks)
