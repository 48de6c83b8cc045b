"""Every error that Redrive raises, and the answers a handler may raise.

One root. A message says what happened, why, and what to do. Foreign exceptions are translated into
these at the adapter's door; unknown ones from a handler are temporary, never permanent (R5).
"""

from __future__ import annotations

from datetime import datetime, timedelta


class RedriveError(Exception):
    """The root of all errors that Redrive raises itself."""


class InvalidMessage(RedriveError):
    """A message that cannot be accepted. `index` is its place in a batch, where there was one."""

    def __init__(self, problem: str, index: int | None = None) -> None:
        self.problem = problem
        self.index = index
        super().__init__(problem if index is None else f"message {index} of the batch: {problem}")


class Conflict(RedriveError):
    """A dedupe key or an id belongs to another message, `first_id`.

    `dedupe` is the key, None where it is about the id; `differs` then says in what the two differ.
    """

    def __init__(
        self, dedupe: str | None, first_id: str, index: int | None = None, *, differs: str | None = None
    ) -> None:
        self.dedupe = dedupe
        self.first_id = first_id
        self.index = index
        self.differs = differs
        where = "" if index is None else f"message {index} of the batch: "
        super().__init__(
            f"{where}message id {first_id} belongs to a message of another {differs}; "
            "repeat a message as it was, or use another id"
            if dedupe is None
            else f"{where}dedupe key {dedupe!r} belongs to {first_id}, whose body is another; "
            "send the same body, or use another key"
        )


class VersionConflict(RedriveError):
    """A record or journal is not at the version the caller expected; read it again."""

    def __init__(self, what: str, expected: int | None, found: int | None) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(f"{what} is at version {found}, not {expected}: read it again, then repeat")


class ConfigurationError(RedriveError):
    """A setting is wrong; the message names the key and where it came from."""


class MissingExtra(ConfigurationError):
    """A backend's driver is not installed."""

    def __init__(self, backend: str, extra: str) -> None:
        super().__init__(f"{backend} needs a driver that is not installed: pip install 'redrive[{extra}]'")


class StoreError(RedriveError):
    """The store cannot be used: not reachable, not ours, too new, or refusing writes."""


class StoreUnavailable(StoreError):
    """The store does not answer now; the same call may succeed later."""


class StoreFull(StoreUnavailable):
    """The store has no room for new messages; what was accepted still drains."""


class Answer(Exception):
    """What a handler raises instead of returning: how its attempt ended."""


class Temporary(Answer):
    """The attempt failed and another may succeed. `retry_after` is the earliest next attempt."""

    def __init__(
        self,
        reason: str,
        *,
        code: str | None = None,
        scope: str | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        self.reason, self.code, self.scope, self.retry_after = reason, code, scope, retry_after
        super().__init__(reason)


class Permanent(Answer):
    """The attempt failed and no other can succeed: a dead letter at once."""

    def __init__(self, reason: str, *, code: str | None = None, scope: str | None = None) -> None:
        self.reason, self.code, self.scope = reason, code, scope
        super().__init__(reason)


class Uncertain(Answer):
    """The other side may have accepted; the retry policy says whether to try again or to bury."""

    def __init__(self, reason: str, *, code: str | None = None, scope: str | None = None) -> None:
        self.reason, self.code, self.scope = reason, code, scope
        super().__init__(reason)


class Later(Answer):
    """Not now: run again at `until` (an aware datetime) or after a timedelta; no attempt is counted."""

    def __init__(self, until: datetime | timedelta, reason: str = "asked to run later") -> None:
        if isinstance(until, datetime) and until.tzinfo is None:
            raise ValueError("Later needs an aware datetime or a timedelta: a naive datetime has no instant")
        self.until, self.reason = until, reason
        super().__init__(reason)


class Hold(Answer):
    """Our own configuration is wrong: hold the tenant's lane, count no attempt, probe until it is mended."""

    def __init__(self, reason: str, *, code: str | None = None, scope: str | None = None) -> None:
        self.reason, self.code, self.scope = reason, code, scope
        super().__init__(reason)
