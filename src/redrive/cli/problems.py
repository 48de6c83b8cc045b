"""What a command may end with: the exit codes, and the errors that carry one.

An error of the office gets its code here, where it is known what it means to someone at a terminal.
"""

from __future__ import annotations

from enum import IntEnum

from redrive.core.errors import ConfigurationError, InvalidMessage, RedriveError, StoreError
from redrive.core.failure import clip


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


class PlacedError(CommandError):
    """What was written cannot be read: the message, the text, and the place in it, counted from 0."""

    def __init__(self, message: str, text: str, position: int) -> None:
        self.text, self.position = text, position
        super().__init__(message, Exit.USAGE)


def refused_by_machine(error: OSError) -> str:
    """What a file, a folder or the network answered where no command foresaw it."""
    why = error.strerror or str(error)
    if error.filename is None:
        return f"the machine refused ({why}): check the working folder, the space on its disk and the network"
    return f"{clip(str(error.filename), 200)} cannot be used ({why}): check the path, its owner and its mode"


def exit_code(error: RedriveError | OSError) -> Exit:
    """What an error means to whoever asked."""
    from redrive.office.beginnings import AmbiguousId
    from redrive.office.groups import GroupError
    from redrive.office.index import CursorError
    from redrive.office.sql import SqlError
    from redrive.office.view import NotFound

    match error:
        case CommandError():
            return error.code
        case (
            ConfigurationError()
            | InvalidMessage()
            | CursorError()
            | GroupError()
            | AmbiguousId()
            | SqlError()
        ):
            return Exit.USAGE
        case NotFound():
            return Exit.NOT_FOUND
        case StoreError():
            return Exit.UNREACHABLE
        case _:
            return Exit.FAILED
