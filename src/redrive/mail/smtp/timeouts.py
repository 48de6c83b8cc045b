"""How long a mail server may take to answer in each phase."""

from __future__ import annotations

from dataclasses import dataclass, fields

from redrive.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpTimeouts:
    """As RFC 5321 4.5.3.2 has them, so that a slow server is not sent the same mail twice.

    `connect_s` is for each address. `block_s`: until 64 KiB of content are taken. `probe_s`: for RSET on a
    connection that was idle.
    """

    connect_s: float = 30.0
    greeting_s: float = 300.0
    command_s: float = 300.0
    data_s: float = 120.0
    block_s: float = 180.0
    final_s: float = 600.0
    probe_s: float = 10.0
    quit_s: float = 2.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ConfigurationError(f"{field.name} is {value}: it must be more than 0")
