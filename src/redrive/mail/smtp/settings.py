"""The defaults of the SMTP client: how long each phase may take, and how connections are pooled."""

from __future__ import annotations

from dataclasses import dataclass, fields

from redrive.core.errors import ConfigurationError


class _Positive:
    """Settings of which each is more than 0."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if value <= 0:
                raise ConfigurationError(f"{field.name} is {value}: it must be more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpTimeouts(_Positive):
    """How long a server may take to answer (RFC 5321 4.5.3.2, P64). `connect_s` is for each address.

    `block_s`: until 64 KiB of content are taken. `probe_s`: for RSET on a connection that was idle.
    """

    connect_s: float = 30.0
    greeting_s: float = 300.0
    command_s: float = 300.0
    data_s: float = 120.0
    block_s: float = 180.0
    final_s: float = 600.0
    probe_s: float = 10.0
    quit_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpPoolSettings(_Positive):
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
