"""From a setting to an adapter: the only file that sees every room.

Adapters are imported here, when their scheme is asked for, so that an extra stays an extra.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from redrive.config import Settings, mask_url, store_file
from redrive.core.errors import ConfigurationError, MissingExtra, StoreError
from redrive.core.ports import Store
from redrive.core.retry import RetryPolicy
from redrive.core.settings import FinishedSettings, RedisSettings, TelemetrySettings
from redrive.telemetry.events import Event, Sink, Telemetry

if TYPE_CHECKING:
    from redrive.mail.gateway import Append, Gateway
    from redrive.office.deaths import Deaths
    from redrive.office.index import Index
    from redrive.office.office import Office

SCHEMES = ("sqlite", "redis", "rediss")
_DUTY_PATIENCE_S = 5.0


def import_store(url: str) -> None:
    """Import the adapter of a URL now, where that can be done, instead of with the first store."""
    name = {"sqlite": "sqlite", "redis": "redis", "rediss": "redis"}.get(url.partition(":")[0])
    if name is not None:
        with suppress(MissingExtra):
            import_module(f"redrive.stores.{name}")


def make_store(url: str, finished: FinishedSettings, redis: RedisSettings | None = None) -> Store:
    """The store that a URL names, not yet opened."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        return _sqlite(url, finished)
    if scheme in ("redis", "rediss"):
        return _redis(url, finished, redis or RedisSettings())
    known = ", ".join(f"{name}://" for name in SCHEMES)
    raise ConfigurationError(f"store: the scheme {scheme[:20]!r} is not known: use one of {known}")


def _sqlite(url: str, finished: FinishedSettings) -> Store:
    from redrive.stores.sqlite import SqliteStore

    file = store_file(url)
    if file is not None and file.name == ":memory:":
        raise ConfigurationError(
            "store: sqlite:///:memory: would lose what it accepted with its process: name a file, "
            "such as sqlite:///redrive.db; a test gets one of its own from redrive.testing"
        )
    if file is None:
        raise ConfigurationError(
            "store: write a SQLite store as sqlite:///file.db, or sqlite:////folder/file.db when absolute"
        )
    return SqliteStore(file, finished=finished)


def _redis(url: str, finished: FinishedSettings, settings: RedisSettings) -> Store:
    from redrive.stores.redis import RedisStore

    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    prefix = query.pop("prefix", "redrive")
    cluster = query.pop("cluster", None)
    if cluster not in (None, "true", "false"):
        raise ConfigurationError(f"store: cluster={cluster[:20]!r} in the address: write true or false")
    plain = urlunsplit(parts._replace(query=urlencode(query)))
    return RedisStore(
        plain,
        prefix=prefix,
        finished=finished,
        settings=settings,
        cluster=None if cluster is None else cluster == "true",
    )


def make_sinks(settings: TelemetrySettings) -> list[Sink]:
    """Who hears of events, in the order that the settings name them."""
    return [_sink(name.strip()) for name in settings.sinks.split(",") if name.strip()]


def _sink(name: str) -> Sink:
    match name:
        case "logs":
            from redrive.telemetry.logs import log_event

            return log_event
    raise ConfigurationError(f"telemetry.sinks: there is no sink {name[:40]!r}: use one of logs, or none")


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
    from redrive.office.office import Office
    from redrive.office.operations.bodies import BodyRule

    bodies = {mail.QUEUE: BodyRule(mail.problem, mail.headers)}
    return Office(store, index, policy, settings.office, settings.retention, bodies)


@asynccontextmanager
async def on_duty(
    office: Office, settings: Settings, telemetry: Telemetry, deaths: Sequence[Deaths] = ()
) -> AsyncIterator[None]:
    """Do the office's duties on an open store while inside, each in a loop of the engine's runner.

    Where deaths are followed from is settled before anything inside can die.
    """
    from redrive.engine.runner import Runner, patiently
    from redrive.office.duties import Duties

    own = {queue: settings.automatic_s(queue) for queue in settings.queues}
    for one in deaths:
        await patiently("begin", one.begin, telemetry)
    duties = Duties(office, telemetry.emit, own, deaths)
    runner = Runner(telemetry)
    for name, step in duties.steps().items():
        runner.start(name, step)
    try:
        yield
    finally:
        await runner.end(_DUTY_PATIENCE_S)
        with suppress(StoreError):
            await duties.close()
