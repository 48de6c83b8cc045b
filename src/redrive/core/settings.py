"""Every default in one place. Configuration, code and documentation read them from here."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import fields

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import QUANTUM

_DSN = re.compile(r"https?://[^\s/@]+@[^\s/@]+/\S*\d+")


def _check_positive(settings: object, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and value <= 0:
            raise ConfigurationError(f"{name} is {value}: it must be more than 0")


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """How a worker process works. `concurrency` bounds the whole process, a queue has its own. Its event loop
    is uvloop's where that is installed, unless `uvloop` is off."""

    concurrency: int = 100
    lease_s: float = 30.0
    poll_s: float = 5.0
    drain_s: float = 30.0
    give_up_s: float = 60.0
    batch: int = 500
    batch_bytes: int = 8 * 1024 * 1024
    prefetch_s: float = 0.25
    quantum: int = QUANTUM
    uvloop: bool = True

    def __post_init__(self) -> None:
        _check_positive(
            self,
            "concurrency",
            "lease_s",
            "poll_s",
            "give_up_s",
            "batch",
            "batch_bytes",
            "prefetch_s",
            "quantum",
        )
        if self.drain_s < 0:
            raise ConfigurationError(f"drain_s is {self.drain_s}: 0 or more")


class QueueSettings(Struct, frozen=True, kw_only=True):
    """How one queue runs. `rate` is written as `100/min`; None is no limit. Where it is not `fair`, tenants
    do not take turns: what is due first runs first. With `inbox`, a broker's queue runs from the ledger."""

    concurrency: int = 5
    deadline_s: float = 300.0
    rate: str | None = None
    fair: bool = True
    inbox: bool = False

    def __post_init__(self) -> None:
        _check_positive(self, "concurrency", "deadline_s")


class FinishedSettings(Struct, frozen=True, kw_only=True):
    """How long finished records and their dedupe keys are kept.

    `remember_s` is how long each record is kept whatever `keep_s` and `keep` say, so that a repeat of its
    message is known for one: it is longer than a lease, and than a submitter repeats by itself.
    """

    keep_s: float = 7 * 86_400.0
    keep: int | None = None
    dedupe_s: float = 86_400.0
    remember_s: float = 120.0

    def __post_init__(self) -> None:
        numbers = (self.keep_s, self.keep or 0, self.dedupe_s, self.remember_s)
        if min(numbers) < 0:
            raise ConfigurationError("keep_s, keep, dedupe_s and remember_s are 0 or more")


FINISHED_IN_MEMORY = FinishedSettings(keep=10_000, dedupe_s=3_600.0, remember_s=60.0)
"""The defaults where every record costs memory."""


class RetentionSettings(Struct, frozen=True, kw_only=True):
    """How long dead letters stay, how many of a queue, and the folder that they leave for.

    Without a folder nothing leaves. None is no limit.
    """

    keep_s: float | None = 7 * 86_400.0
    keep: int | None = 10_000
    folder: str | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "keep_s", "keep")


class RedisSettings(Struct, frozen=True, kw_only=True):
    """What a Redis store asks of its server; a `watermark` of None refuses nothing early."""

    allow_unsafe: bool = False
    wait_replicas: int = 0
    watermark: float | None = 0.9

    def __post_init__(self) -> None:
        if self.wait_replicas < 0:
            raise ConfigurationError(f"wait_replicas is {self.wait_replicas}: 0 or more")
        if self.watermark is not None and not 0 < self.watermark <= 1:
            raise ConfigurationError(f"watermark is {self.watermark}: a share of maxmemory, above 0 up to 1")


class BrokerSettings(Struct, frozen=True, kw_only=True):
    """What stands beside a broker, and how its queues are consumed.

    `ledger` is the store that keeps dead letters, records and the audit. `topology` names the file that
    describes the queues; one that it does not name is made with the defaults. `collect` lists dead-letter
    queues of other software, separated by commas, each as `queue` or as `queue=origin` where its letters do
    not say where they came from. `consumer_timeout_s` is the broker's own: no handler may run so long.
    """

    ledger: str = "sqlite:///redrive.db"
    topology: str | None = None
    prefetch: int = 500
    collect: str = ""
    consumer_timeout_s: float = 1_800.0

    def __post_init__(self) -> None:
        _check_positive(self, "prefetch", "consumer_timeout_s")
        if self.prefetch > 65_535:
            raise ConfigurationError(f"prefetch is {self.prefetch}: at most 65535")


class OfficeSettings(Struct, frozen=True, kw_only=True):
    """What people may do with dead letters; `automatic_s` is the cool-down of the automatic re-drive.

    `masked` lists payload fields that are masked besides the usual ones, separated by commas. `index` is the
    folder of the index of a store that has none itself; without one it is kept in memory.
    """

    budget: int = 100_000
    edit: bool = False
    automatic_s: float | None = None
    masked: str = ""
    index: str | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "budget", "automatic_s")


class SubmitSettings(Struct, frozen=True, kw_only=True):
    """What a submitter may send; `queues` is how many a tenant may begin over HTTP."""

    body_bytes: int = 1024 * 1024
    queues: int = 100

    def __post_init__(self) -> None:
        _check_positive(self, "body_bytes", "queues")


class SmtpSettings(Struct, frozen=True, kw_only=True):
    """One relay's connections: how many, for how many messages, how old, how long idle; and how long the
    server may take to answer in each phase.

    A connection idle for longer than `probe_after_s` is probed before it is used, and ends politely
    after `idle_s`. After a failed connect, no other is tried for `pause_s` unless there is none at all.
    The times to answer are those of RFC 5321 4.5.3.2, so that a slow server is not sent the same mail twice:
    `connect_s` is for each address, `block_s` until 64 KiB of content are taken, `probe_s` for a probe.
    """

    connections: int = 10
    messages: int = 100
    age_s: float = 300.0
    idle_s: float = 60.0
    probe_after_s: float = 5.0
    pause_s: float = 1.0
    connect_s: float = 30.0
    greeting_s: float = 300.0
    command_s: float = 300.0
    data_s: float = 120.0
    block_s: float = 180.0
    final_s: float = 600.0
    probe_s: float = 10.0
    quit_s: float = 2.0

    def __post_init__(self) -> None:
        _check_positive(self, *(each.name for each in fields(self)))


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """Where each worker answers Prometheus, as address and port; None is nowhere.

    Whoever reaches the port may read: another address than this machine's needs `allow_remote`.
    """

    listen: str | None = None
    allow_remote: bool = False


class SentrySettings(Struct, frozen=True, kw_only=True):
    """Where exceptions of handlers are reported: the DSN of a project of Sentry; None is nowhere."""

    dsn: str | None = None

    def __post_init__(self) -> None:
        if self.dsn is not None and not _DSN.fullmatch(self.dsn):
            raise ConfigurationError(
                "dsn is not that of a project of Sentry: copy it from there, as https://KEY@HOST/NUMBER"
            )


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Who hears of what happens: names of sinks, separated by commas; empty is nobody. `tracing` makes spans
    with OpenTelemetry."""

    sinks: str = "logs,totals"
    tracing: bool = False
