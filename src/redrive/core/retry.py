"""How long to wait before the next attempt, and when to give up.

`RetryPolicy` is all a queue may choose. Jitter is handed in as a number between 0 and 1; this module
draws none. The delay table in the documentation is printed by `delay_table`.
"""

from __future__ import annotations

import math
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import force_setattr

from redrive.core.errors import ConfigurationError


class Backoff(StrEnum):
    """How the delay grows with the number of failed attempts."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class UncertainPolicy(StrEnum):
    """What to do when the other side may have accepted."""

    RETRY = "retry"
    BURY = "bury"


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How one queue retries. `attempts` None means: until the time to live ends."""

    attempts: int | None = 5
    base_s: float = 1.0
    cap_s: float = 60.0
    backoff: Backoff = Backoff.EXPONENTIAL
    jitter: float = 0.25
    ttl_s: float = 86_400.0
    uncertain: UncertainPolicy = UncertainPolicy.RETRY

    def __post_init__(self) -> None:
        force_setattr(self, "backoff", Backoff(self.backoff))
        force_setattr(self, "uncertain", UncertainPolicy(self.uncertain))
        for name in ("base_s", "cap_s", "jitter", "ttl_s"):
            if not math.isfinite(getattr(self, name)):
                raise ConfigurationError(f"{name} is {getattr(self, name)}: give a finite number")
        if self.attempts is not None and self.attempts < 1:
            raise ConfigurationError(f"attempts is {self.attempts}: at least 1, or none for no limit")
        if self.base_s <= 0:
            raise ConfigurationError(f"base_s is {self.base_s}: a delay is more than 0 seconds")
        if self.cap_s < self.base_s:
            raise ConfigurationError(f"cap_s is {self.cap_s}, below base_s {self.base_s}: raise the cap")
        if not 0 <= self.jitter < 1:
            raise ConfigurationError(f"jitter is {self.jitter}: a share from 0 to below 1")
        if self.ttl_s <= 0:
            raise ConfigurationError(f"ttl_s is {self.ttl_s}: a time to live is more than 0 seconds")


PROFILES: dict[str, RetryPolicy] = {
    "production": RetryPolicy(),
    "development": RetryPolicy(attempts=3, base_s=0.5, cap_s=30.0),
    "mta": RetryPolicy(attempts=None, base_s=300.0, cap_s=14_400.0, ttl_s=259_200.0),
}


def delay_s(policy: RetryPolicy, failed: int, jitter: float) -> float:
    """Seconds to wait after the `failed`-th failed attempt (from 1); `jitter` is drawn from [0, 1)."""
    return spread_s(policy, plain_delay_s(policy, failed), jitter)


def spread_s(policy: RetryPolicy, delay_s: float, jitter: float) -> float:
    """A delay of our own choice, varied both ways, so that what failed together does not return together."""
    return delay_s * (1 + policy.jitter * (2 * jitter - 1))


def spread_after_s(policy: RetryPolicy, delay_s: float, jitter: float) -> float:
    """A delay that someone asked for: never shorter, and longer by the policy's share at most."""
    return delay_s * (1 + policy.jitter * jitter)


def plain_delay_s(policy: RetryPolicy, failed: int) -> float:
    """The delay before jitter. The exponent is bounded so that a long life does not overflow."""
    match policy.backoff:
        case Backoff.EXPONENTIAL:
            grown = policy.base_s * 2.0 ** min(failed - 1, 60)
        case Backoff.LINEAR:
            grown = policy.base_s * failed
        case Backoff.FIXED:
            grown = policy.base_s
    return min(policy.cap_s, grown)


def delay_table(policy: RetryPolicy, rows: int = 7) -> str:
    """The published table: failed attempt, delay, and its range with jitter, in milliseconds."""
    lines = ["| failed attempt | delay | with jitter |", "|---|---|---|"]
    for failed in range(1, rows + 1):
        low, plain, high = (
            round(1000 * value)
            for value in (
                delay_s(policy, failed, 0.0),
                plain_delay_s(policy, failed),
                delay_s(policy, failed, 1.0),
            )
        )
        name = f"{failed}+" if failed == rows else str(failed)
        lines.append(f"| {name} | {plain:,} ms | {low:,}-{high:,} ms |")
    return "\n".join(lines)
