"""The command line: it parses, calls the office, and prints. It decides nothing about a message.

One small file a group of commands; this one joins them and is the only place where an error becomes an
exit code. Standard output carries the answer alone, and with --json exactly one document; notes, progress
and errors go to standard error. Known weakness: an error that nobody foresaw still shows its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from redrive.cli.backup import backup
from redrive.cli.config import config
from redrive.cli.dlq import dlq
from redrive.cli.messages import cancel, run_now, show
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.queues import queue
from redrive.cli.send import send
from redrive.cli.status import status
from redrive.cli.up import up
from redrive.cli.worker import worker
from redrive.core.errors import ConfigurationError, Conflict, InvalidMessage, RedriveError, StoreError
from redrive.version import __version__

__all__ = ["app", "main", "run"]

app = App(
    name="redrive",
    help="Handlers with retries that never lose a message, and an office for what failed.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=False),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for command in (up, worker, send, status, show, cancel, run_now, queue, dlq, config, backup):
    app.command(command)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    output = Output("--json" in arguments)
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or Exit.OK)
    except CycloptsError as error:
        return _report(output, f"{error} Every flag is in: redrive COMMAND --help", error)
    except RedriveError as error:
        return _report(output, str(error), error)
    except BrokenPipeError:
        output.forsake()
        return Exit.FAILED
    except KeyboardInterrupt:
        output.note("interrupted")
        return Exit.INTERRUPTED


def _report(output: Output, message: str, error: RedriveError | CycloptsError) -> int:
    code = _exit_code(error)
    more = {"firstId": error.first_id} if isinstance(error, Conflict) else {}
    output.error(message, code, more)
    return code


def _exit_code(error: RedriveError | CycloptsError) -> Exit:
    match error:
        case CommandError():
            return error.code
        case CycloptsError() | ConfigurationError() | InvalidMessage():
            return Exit.USAGE
        case StoreError():
            return Exit.UNREACHABLE
        case _:
            return Exit.FAILED
