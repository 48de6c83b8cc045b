"""What a command may end with: the exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum

from redrive.core.errors import RedriveError


class Exit(IntEnum):
    """The exit codes; scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    INTERRUPTED = 130

    @property
    def words(self) -> str:
        """As it stands in an error's document."""
        return self.name.lower().replace("_", " ")


class CommandError(RedriveError):
    """A command cannot do what was asked. The message says what, why, and what to do."""

    def __init__(self, message: str, code: Exit) -> None:
        self.code = code
        super().__init__(message)


def no_message(message_id: str) -> CommandError:
    """The error for an id that the store does not know."""
    return CommandError(
        f"no message {message_id!r} in this store: it may have finished and been cleaned up; check the id",
        Exit.NOT_FOUND,
    )
