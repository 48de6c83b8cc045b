"""From a setting to an adapter: the only file that sees every room and knows the kinds of store.

Adapters are imported here, when their scheme is asked for, so that an extra stays an extra. A new kind of
store is a room in `stores/` and an entry in `_KINDS`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from redrive import config
from redrive.config import Settings, StoreDefaults, mask_url
from redrive.core.errors import ConfigurationError, MissingExtra, StoreError
from redrive.core.retry import Backoff, RetryPolicy
from redrive.core.settings import FINISHED_IN_MEMORY
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event, Sink

if TYPE_CHECKING:
    from redrive.core.store import Store
    from redrive.mail.gateway import Append, Gateway
    from redrive.office.deaths import Deaths
    from redrive.office.index import Index
    from redrive.office.leases import DutyLease
    from redrive.office.office import Office
    from redrive.telemetry.traces import Traces

_FILE = "sqlite:///"
_DUTY_PATIENCE_S = 5.0
_log = logging.getLogger("redrive")
_BROKER_ATTEMPTS = 3
_COLLECTOR_LEASE_S = 30.0
_COLLECTED_ELSEWHERE_S = 5.0


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of store: its room, what makes one, and the defaults that follow from its URL."""

    room: str
    make: Callable[[Settings], Store]
    defaults: Callable[[str, Path], StoreDefaults]


def load(
    flags: Mapping[str, object] | None = None,
    *,
    code: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings of this process as `config.load` reads them, with what follows from the kind of store."""
    return config.load(flags, code=code, environ=environ, folder=folder, stores=store_defaults)


def store_defaults(url: str, data: Path) -> StoreDefaults:
    """What follows from a store's URL; a relative file lies in the folder `data`."""
    kind = _KINDS.get(_scheme(url))
    return StoreDefaults(url) if kind is None else kind.defaults(url, data)


def store_file(url: str) -> Path | None:
    """The file that a store's URL names; None for a server."""
    return store_defaults(url, Path()).file


def unsafe_flags(*, allowed: bool) -> dict[str, object]:
    """What `--allow-unsafe` sets: a server that may lose messages is used all the same."""
    return {"redis.allow_unsafe": allowed or None}


def for_looking(settings: Settings) -> Settings:
    """The same settings for commands that accept no message: they look at an unsafe server too."""
    return replace(settings, redis=replace(settings.redis, allow_unsafe=True))


def import_store(url: str) -> None:
    """Import the adapter of a URL now, where that can be done, instead of with the first store."""
    kind = _KINDS.get(_scheme(url))
    if kind is not None:
        with suppress(MissingExtra):
            import_module(f"redrive.{kind.room}")


def make_store(settings: Settings) -> Store:
    """The store that the settings name, not yet opened."""
    kind = _KINDS.get(_scheme(settings.store))
    if kind is None:
        raise ConfigurationError(f"store: {_unknown(settings.store)}")
    return kind.make(settings)


def _unknown(url: str) -> str:
    known = f"use one of {', '.join(f'{scheme}://' for scheme in _KINDS)}"
    if ":" in url or "@" in url:
        return f"the scheme {_scheme(url)[:20]!r} is not known: {known}"
    return f"{url[:80]!r} is not the address of a store: for this file write {_FILE}{url[:80]}; or {known}"


def _scheme(url: str) -> str:
    return url.partition(":")[0]


def _sqlite(settings: Settings) -> Store:
    from redrive.stores.sqlite import SqliteStore

    file = store_file(settings.store)
    if file is not None and file.name == ":memory:":
        raise ConfigurationError(
            "store: sqlite:///:memory: would lose what it accepted with its process: name a file, "
            "such as sqlite:///redrive.db; a test gets one of its own from redrive.testing"
        )
    if file is None:
        raise ConfigurationError(
            "store: write a SQLite store as sqlite:///file.db, or sqlite:////folder/file.db when absolute"
        )
    return SqliteStore(file, finished=settings.finished)


def _sqlite_defaults(url: str, data: Path) -> StoreDefaults:
    """`sqlite:////` begins an absolute path."""
    name = url.removeprefix(_FILE)
    if name == url or not name:
        return StoreDefaults(url)
    return StoreDefaults(f"{_FILE}{data / name}", file=data / name)


def _redis(settings: Settings) -> Store:
    from redrive.stores.redis import RedisStore
    from redrive.stores.redis.address import read_address

    address = read_address(settings.store)
    return RedisStore(
        address.url,
        prefix=address.prefix,
        finished=settings.finished,
        settings=settings.redis,
        cluster=address.cluster,
    )


def _redis_defaults(url: str, _: Path) -> StoreDefaults:
    return StoreDefaults(url, finished=FINISHED_IN_MEMORY)


def _rabbitmq(settings: Settings) -> Store:
    from redrive.brokers.carried import CarriedStore
    from redrive.brokers.rabbitmq.opening import make_carrier

    place = mask_url(settings.store)
    inbox = frozenset(queue for queue in settings.queues if settings.queue(queue).inbox)
    ledger = store_defaults(settings.broker.ledger, settings.data).url
    return CarriedStore(
        make_store(replace(settings, store=ledger)),
        lambda now: make_carrier(settings.store, place, settings.broker, now),
        inbox,
    )


def _rabbitmq_defaults(url: str, _: Path) -> StoreDefaults:
    return StoreDefaults(url, broker=True, attempts=_BROKER_ATTEMPTS)


_REDIS = StoreKind("stores.redis", _redis, _redis_defaults)
_RABBITMQ = StoreKind("brokers.rabbitmq.opening", _rabbitmq, _rabbitmq_defaults)
_KINDS = {
    "sqlite": StoreKind("stores.sqlite", _sqlite, _sqlite_defaults),
    "redis": _REDIS,
    "rediss": _REDIS,
    "amqp": _RABBITMQ,
    "amqps": _RABBITMQ,
}


def fit_policy(settings: Settings, queue: str, policy: RetryPolicy) -> RetryPolicy:
    """A queue's policy as its broker can keep it: where a retry waits for a fixed time, it says so."""
    if (
        not store_defaults(settings.store, settings.data).broker
        or ":" in queue
        or settings.queue(queue).inbox
    ):
        return policy
    from redrive.brokers.rabbitmq.opening import fixed_delay_s

    delay_s = fixed_delay_s(settings.broker, queue)
    if delay_s is None:
        return policy
    cap_s = max(policy.cap_s, delay_s)
    return replace(policy, backoff=Backoff.FIXED, base_s=delay_s, cap_s=cap_s, jitter=0.0)


def check_deadline(settings: Settings, queue: str, deadline_s: float) -> None:
    """Refuse a handler that may run for longer than a broker waits for an acknowledgement."""
    limit_s = settings.broker.consumer_timeout_s
    if store_defaults(settings.store, settings.data).broker and deadline_s >= limit_s:
        raise ConfigurationError(
            f"the handler of {queue!r} has a deadline of {deadline_s:g} s, the broker waits {limit_s:g} s "
            "for an acknowledgement: lower the deadline, or raise consumer_timeout on the broker and "
            "broker.consumer_timeout_s here"
        )


def make_sinks(settings: Settings, totals: Sink) -> list[Sink]:
    """Who hears of events, in the order that the settings name them; `totals` adds them up."""
    names = map(str.strip, settings.telemetry.sinks.split(","))
    return [*(_sink(name, settings, totals) for name in names if name), *_sentry(settings)]


def _sentry(settings: Settings) -> list[Sink]:
    """What reports to Sentry, where the settings name a project; a variable that is the program's own, and
    not ours, is no reason not to start."""
    if settings.sentry.dsn is None:
        return []
    if find_spec("sentry_sdk") is None:
        if settings.origins.get("sentry.dsn") != config.SENTRY_VARIABLE:
            raise MissingExtra("sentry.dsn", "sentry")
        _log.warning("exceptions are not reported to Sentry: %s", MissingExtra("SENTRY_DSN", "sentry"))
        return []
    from redrive.telemetry.sentry import SentrySink

    return [SentrySink(settings.sentry.dsn)]


def _sink(name: str, settings: Settings, totals: Sink) -> Sink:
    match name:
        case "totals":
            return totals
        case "logs":
            from redrive.telemetry.log_sink import LogSink

            return LogSink(settings.logs.repeats, settings.logs.completions)
    raise ConfigurationError(
        f"telemetry.sinks: there is no sink {name[:40]!r}: use one of logs, totals, or none"
    )


def make_traces(settings: Settings) -> Traces | None:
    """What makes spans; None when the settings do not ask for them."""
    if not settings.telemetry.tracing:
        return None
    from redrive.telemetry.traces import Traces

    return Traces()


def make_gateway(
    settings: Settings,
    append: Append,
    policy: Callable[[], RetryPolicy],
    emit: Callable[[Event], None],
) -> Gateway:
    """The handler of `email:send`, with its relay's connections not yet opened."""
    from redrive.mail.gateway import Gateway
    from redrive.mail.judging.rules import Rules
    from redrive.mail.smtp.pool import Pool
    from redrive.mail.smtp.relay import Relay

    rules = Rules.default() if settings.mail_rules is None else Rules.load(settings.mail_rules)
    return Gateway(Pool(Relay.parse(settings.mail), settings.smtp), rules, append, policy, emit)


def make_index(store: Store, settings: Settings) -> Index:
    """What finds an open store's dead letters; a disposable one is shared by all processes of this user."""
    from redrive.office.index import Index

    folder = settings.office.index
    return Index(store, None if folder is None else Path(folder), mask_url(settings.store))


def make_office(
    store: Store, index: Index, policy: Callable[[str], RetryPolicy], settings: Settings
) -> Office:
    """What people do with an open store's messages and dead letters."""
    from redrive.mail import stored as mail
    from redrive.mail.smtp.relay import relay_host
    from redrive.office.alerts.channels import Alerting
    from redrive.office.office import Office
    from redrive.office.operations.bodies import BodyRule

    bodies = {mail.QUEUE: BodyRule(mail.problem, mail.headers)}
    traces = make_traces(settings)
    alerting = Alerting(settings.alerts, relay_host(settings.mail), mail.QUEUE)
    return Office(store, index, policy, settings.office, settings.retention, bodies, traces, alerting)


@asynccontextmanager
async def on_duty(
    office: Office, settings: Settings, telemetry: Telemetry, deaths: Sequence[Deaths] = ()
) -> AsyncIterator[None]:
    """Do the office's duties on an open store while inside, each in a loop of the engine's runner.

    Where deaths are followed from is settled before anything inside can die. ConfigurationError when a
    channel of alerts cannot be.
    """
    from redrive.engine.runner import Runner, patiently
    from redrive.office.duties import Duties

    office.alerting.check()
    own = {queue: settings.automatic_s(queue) for queue in settings.queues}
    for one in deaths:
        await patiently("begin", one.begin, telemetry)
    duties = Duties(office, telemetry.emit, own, deaths)
    runner = Runner(telemetry)
    broker = _broker_duties(office, settings)
    for name, step in {**duties.steps(), **broker.steps}.items():
        runner.start(name, step)
    try:
        yield
    finally:
        await runner.end(_DUTY_PATIENCE_S)
        with suppress(StoreError):
            await duties.close()
            await broker.close()


@dataclass(frozen=True, slots=True)
class _BrokerDuties:
    """What a process does for a broker beside its own work, what it stops at the end, and the leases to let
    go of then."""

    steps: Mapping[str, Callable[[], Awaitable[float]]] = field(default_factory=dict)
    stops: Sequence[Callable[[], Awaitable[None]]] = ()
    leases: Sequence[DutyLease] = ()

    async def close(self) -> None:
        for stop in self.stops:
            with suppress(StoreError):
                await stop()
        for lease in self.leases:
            await lease.release()


def _broker_duties(office: Office, settings: Settings) -> _BrokerDuties:
    """Collecting, which one process at a time does, relaying, and taking in; nothing without a broker."""
    from redrive.brokers.carried import CarriedStore

    store = office.store
    if not isinstance(store, CarriedStore):
        return _BrokerDuties()
    from redrive.brokers.collector import Collector
    from redrive.brokers.inbox import InboxIntake
    from redrive.brokers.relay import Publications
    from redrive.office.duties import DUTY_RECORDS
    from redrive.office.leases import DutyLease, holder_name

    collector = Collector(store)
    lease = DutyLease(store, DUTY_RECORDS, "collect", holder_name(), _COLLECTOR_LEASE_S)

    async def collect() -> float:
        if await lease.hold():
            return await collector.step()
        await collector.stop()
        return _COLLECTED_ELSEWHERE_S

    steps = {"collect": collect, "relay": Publications(store).step}
    if store.inbox:
        steps["inbox"] = InboxIntake(store, lambda queue: settings.policy(queue).ttl_s).step
    return _BrokerDuties(steps, [collector.stop], [lease])
