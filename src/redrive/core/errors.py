"""Every error that Redrive raises, and the answers a handler may raise.

One root. A message says what happened, why, and what to do. Foreign exceptions are translated into
these at the adapter's door; unknown ones from a handler are temporary, never permanent.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from redrive.core.values import as_code, as_delay, as_text

NO_REASON = "no reason given"


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


class CannotListen(RedriveError):
    """An address cannot be listened on: it is taken, or is not this machine's."""


class ConfigurationError(RedriveError):
    """A setting is wrong; the message names the key and where it came from."""


class MissingExtra(ConfigurationError):
    """What was asked for needs packages that are not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs packages that are not installed: pip install 'redrive[{extra}]'")


class StoreError(RedriveError):
    """The store cannot be used: not reachable, not ours, too new, or refusing writes."""


class StoreUnavailable(StoreError):
    """The store does not answer now; the same call may succeed later."""


class StoreFull(StoreUnavailable):
    """The store has no room for new messages; what was accepted still drains."""


class WorkerFailed(RedriveError):
    """A worker ended by itself, because its store refuses all its claims, and not for want of an answer."""

    def __init__(self, for_s: float, why: BaseException) -> None:
        super().__init__(
            f"the worker ended: it could not claim anything for {for_s:g} s ({as_text(why)}); "
            "fix that, then start it again"
        )


class Answer(Exception):
    """What a handler raises instead of returning: how its attempt ended.

    Answers take what is at hand: an exception as reason, a number as code, seconds as a delay. What a
    subclass does not set has a value here.
    """

    reason: str = ""
    code: str | None = None
    scope: str | None = None

    def __init__(self, reason: object = None, *, code: object = None, scope: object = None) -> None:
        self.reason, self.code = as_text(reason) or NO_REASON, as_code(code)
        self.scope = as_text(scope) or None
        super().__init__(self.reason)


class Temporary(Answer):
    """The attempt failed and another may succeed. `retry_after` is the earliest next attempt.

    A timedelta, seconds or an aware datetime. What is none of them is ignored, and the reason says so.
    """

    retry_after: timedelta | datetime | None = None

    def __init__(
        self,
        reason: object = None,
        *,
        code: object = None,
        scope: object = None,
        retry_after: timedelta | datetime | float | str | None = None,
    ) -> None:
        super().__init__(reason, code=code, scope=scope)
        try:
            self.retry_after = None if retry_after is None else as_delay(retry_after)
        except ValueError as error:
            self.reason = f"{self.reason} (retry_after {error}; the usual delay applies)"


class Permanent(Answer):
    """The attempt failed and no other can succeed: a dead letter at once."""


class Uncertain(Answer):
    """The other side may have accepted; the retry policy says whether to try again or to bury."""


class Later(Answer):
    """Not now: run again at `until` (an aware datetime), or after a timedelta or seconds.

    No attempt is counted. It waits a second at least. Another `until` is a ValueError, so a counted failure.
    """

    until: timedelta | datetime = timedelta()

    def __init__(
        self, until: datetime | timedelta | float | str, reason: object = "asked to run later"
    ) -> None:
        super().__init__(reason)
        try:
            self.until = as_delay(until)
        except ValueError as error:
            raise ValueError(f"Later {error}") from None


class Hold(Answer):
    """Our own configuration is wrong: hold the tenant's lane, count no attempt, probe until it is fixed."""
