"""Every default in one place. Configuration, code and documentation read them from here."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import QUANTUM


def _check_positive(settings: object, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and value <= 0:
            raise ConfigurationError(f"{name} is {value}: it must be more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker process works. `concurrency` bounds the whole process, a queue has its own."""

    concurrency: int = 100
    lease_s: float = 30.0
    poll_s: float = 1.0
    drain_s: float = 30.0
    give_up_s: float = 60.0
    batch: int = 500
    batch_bytes: int = 8 * 1024 * 1024
    prefetch_s: float = 0.25
    quantum: int = QUANTUM

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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How one queue runs. `rate` is written as `100/min`; None is no limit."""

    concurrency: int = 5
    deadline_s: float = 300.0
    rate: str | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "concurrency", "deadline_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSettings:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long dead letters stay, how many of a queue, and the folder that they leave for.

    Without a folder nothing leaves. None is no limit.
    """

    keep_s: float | None = 7 * 86_400.0
    keep: int | None = 10_000
    folder: str | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "keep_s", "keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSettings:
    """What a Redis store asks of its server; a `watermark` of None refuses nothing early."""

    allow_unsafe: bool = False
    wait_replicas: int = 0
    watermark: float | None = 0.9

    def __post_init__(self) -> None:
        if self.wait_replicas < 0:
            raise ConfigurationError(f"wait_replicas is {self.wait_replicas}: 0 or more")
        if self.watermark is not None and not 0 < self.watermark <= 1:
            raise ConfigurationError(f"watermark is {self.watermark}: a share of maxmemory, above 0 up to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeSettings:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitSettings:
    """What a submitter may send; `queues` is how many a tenant may begin over HTTP."""

    body_bytes: int = 1024 * 1024
    queues: int = 100

    def __post_init__(self) -> None:
        _check_positive(self, "body_bytes", "queues")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """One relay's connections: how many, for how many messages, how old, and how long idle.

    A connection idle for longer than `probe_after_s` is probed before it is used, and ends politely
    after `idle_s`. After a failed connect, no other is tried for `pause_s` unless there is none at all.
    """

    connections: int = 10
    messages: int = 100
    age_s: float = 300.0
    idle_s: float = 60.0
    probe_after_s: float = 5.0
    pause_s: float = 1.0

    def __post_init__(self) -> None:
        names = ("connections", "messages", "age_s", "idle_s", "probe_after_s", "pause_s")
        _check_positive(self, *names)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Who hears of what happens: names of sinks, separated by commas; empty is nobody."""

    sinks: str = "logs"
