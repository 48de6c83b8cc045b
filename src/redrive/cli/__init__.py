"""The command line: it parses, calls the office, and prints. It decides nothing about a message.

One small file a group of commands, imported when it is asked for; this one joins them and is the only
place where an error becomes an exit code. Standard output carries the answer alone, and with --json
exactly one document; notes, progress and errors go to standard error. Known weakness: an error that
nobody foresaw still shows its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from redrive.cli.output import Output
from redrive.cli.problems import Exit, PlacedError, exit_code
from redrive.core.errors import Conflict, RedriveError
from redrive.version import __version__

__all__ = ["app", "main", "run"]

_HELP = frozenset({"-h", "--help"})

app = App(
    name="redrive",
    help="Handlers with retries that never lose a message, and an office for what failed.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=False),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for command in (
    "up:up",
    "demo.demo:demo",
    "serve:serve",
    "worker:worker",
    "mail:mail",
    "mailbox:mailbox",
    "send:send",
    "status:status",
    "doctor:doctor",
    "messages:show",
    "messages:cancel",
    "messages:run_now",
    "queue:queue",
    "tenant:tenant",
    "dlq:dlq",
    "ops:ops",
    "audit:audit",
    "keys:keys",
    "config:config",
    "backup:backup",
):
    app.command(f"redrive.cli.{command}")


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    output = Output("--json" in arguments)
    if not arguments or _HELP.intersection(arguments):
        _load_commands(app)
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


def _load_commands(group: App) -> None:
    """The list of commands has their own words, which come with their import."""
    for name in group:
        if not name.startswith("-"):
            _load_commands(group[name])


def _report(output: Output, message: str, error: RedriveError | CycloptsError) -> int:
    code = exit_code(error) if isinstance(error, RedriveError) else Exit.USAGE
    more: dict[str, Any] = {"firstId": error.first_id} if isinstance(error, Conflict) else {}
    if isinstance(error, PlacedError):
        more["position"] = error.position
        output.point(error.text, error.position)
    output.error(message, code, more)
    return code
