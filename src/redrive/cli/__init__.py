"""The command line: it parses, calls the office, and prints. It decides nothing about a message.

The tree below mirrors `redrive --help`: a file a command or a folder a group, imported when it is asked for;
this one joins them and is the only place where an error becomes an exit code. Standard output carries the
answer alone, and with --json exactly one document; notes, progress and errors go to standard error. Known
weakness: an error that nobody foresaw still shows its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from redrive.brokers import ROOMS
from redrive.cli.output import Output
from redrive.cli.problems import Exit, PlacedError, exit_code, refused_by_machine
from redrive.core.errors import Conflict, RedriveError
from redrive.version import __version__

__all__ = ["app", "main", "run"]

_HELP = frozenset({"-h", "--help"})

app = App(
    name="redrive",
    help="Handlers with retries that never lose a message, and an office for what failed.",
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=False),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for place, summary in {
    "up:up": "Run gateway, HTTP API, worker and mailbox simulator, with demo traffic, and watch it live.",
    "demo.demo:demo": "Send mails of three tenants over HTTP into the simulator, and watch each one.",
    "serve:serve": "Serve the HTTP API until SIGTERM or Ctrl-C; its first start makes an admin key.",
    "worker:worker": "Run an app's handlers, such as shop:app for `app` in shop.py, or the mail gateway.",
    "mail:mail": "Send mails, see how far they are, and judge replies.",
    "mailbox:mailbox": "The mailbox simulator: run it, and see what it received.",
    "send:send": "Submit one message; prints its id once it is stored.",
    "status:status": "The state of everything: queues, the last hour, tenants, causes, operations, workers.",
    "top:top": "Watch the store live: what flows, who waits, what fails, what is under way; q quits.",
    "doctor:doctor": "Examine the live store: what is right, wrong or worth a look, and how to fix it.",
    "messages:show": "The life of one message: every attempt, delay and reason, and why it waits or died.",
    "messages:cancel": "Remove a message that waits; it will not run.",
    "messages:run_now": "Make a waiting message due now, whatever its delay.",
    "messages:messages": "List what waits, runs, is done or was removed; remove what waits.",
    "queue:queue": "List, pause, resume and purge queues.",
    "tenant:tenant": "List, pause and resume tenants, and set their weight, cap and rate.",
    "dlq:dlq": "Find, read, bring back, discard, export and archive dead letters.",
    "ops:ops": "Watch, pause, resume and cancel operations: re-drives, discards, exports, restores.",
    "alerts:alerts": "See what fires, test channels, and silence alerts.",
    "audit:audit": "Who did what, and whether that record is whole.",
    "keys:keys": "Make, list and revoke the keys of the HTTP API.",
    "config:config": "See the settings.",
    "docs:docs": "Print a page of the documentation, such as filters; without one, say which there are.",
    "backup:backup": "Copy the SQLite store into a new file, while workers go on.",
}.items():
    app.command(f"redrive.cli.{place}", help=summary)
for room, summary in ROOMS.items():
    app.command(f"redrive.cli.brokers:{room}", help=summary)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    output = Output("--json" in arguments or _is_collected(arguments))
    _load_listed(arguments)
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or Exit.OK)
    except CycloptsError as error:
        early = next((one for one in arguments[:1] if one.startswith("-")), None)
        why = error if early is None else f"{early} stands before the command: write it after it."
        return _report(output, f"{why} Every flag is in: redrive COMMAND --help", error)
    except RedriveError as error:
        return _report(output, str(error), error)
    except BrokenPipeError:
        output.abandon()
        return Exit.FAILED
    except OSError as error:
        return _report(output, refused_by_machine(error), error)
    except KeyboardInterrupt:
        output.note("interrupted")
        return Exit.INTERRUPTED


def _is_collected(arguments: Sequence[str]) -> bool:
    """A worker off a terminal is read by what collects logs: its error is JSON, as its lines are."""
    return arguments[:1] == ["worker"] and not sys.stderr.isatty()


def _load_listed(arguments: Sequence[str]) -> None:
    """A list of a group's commands is asked for: it has their own words, which come with their import."""
    group, rest = app, list(arguments)
    while rest and not rest[0].startswith("-") and rest[0] in group:
        group = group[rest.pop(0)]
    if group is not app and (not rest or _HELP.intersection(rest)):
        _load_commands(group)


def _load_commands(group: App) -> None:
    for name in group:
        if not name.startswith("-"):
            _load_commands(group[name])


def _report(output: Output, message: str, error: RedriveError | CycloptsError | OSError) -> int:
    code = Exit.USAGE if isinstance(error, CycloptsError) else exit_code(error)
    more: dict[str, Any] = {"firstId": error.first_id} if isinstance(error, Conflict) else {}
    if isinstance(error, PlacedError):
        more["position"] = error.position
        output.point(error.text, error.position)
    output.error(message, code, more)
    return code
