"""`redrive worker module:app`: run an app's handlers until SIGTERM or Ctrl-C.

The module is named by the operator, never by stored data (S8), and is looked for in the working folder
first. What importing it raises is told in one line with its place.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rich.text import Text

from redrive.app import Redrive
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags
from redrive.cli.status import store_line
from redrive.cli.story import Counts
from redrive.config import Settings
from redrive.telemetry.log_format import configure_logs


async def worker(
    app: str,
    /,
    *,
    queue: tuple[str, ...] = (),
    concurrency: int | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
    flags: Flags = NO_FLAGS,
) -> None:
    """Run the handlers of an app, such as shop:app for `app` in shop.py.

    Parameters
    ----------
    app
        module:attribute, looked for in the working folder first.
    queue
        Serve only this queue of the app; may be given several times.
    concurrency
        How many handlers may run at once in this process.
    log_level
        debug, info, warning or error.
    log_format
        json, text or auto.
    """
    more = {"worker.concurrency": concurrency, "logs.level": log_level, "logs.format": log_format}
    served = _load(app)
    served.configure(_settings(served, flags, more))
    if not served.served(queue):
        raise CommandError(f"{app} has no handler: register one with @app.handler(queue)", Exit.USAGE)
    output, counts = Output(flags.json), Counts()
    configure_logs(served.settings.logs.level, "json" if flags.json else served.settings.logs.format)
    served.telemetry.add(counts.see)
    async with served:
        described = await served.store.describe()
        if output.notes.is_terminal and not flags.json:
            output.notes.print(store_line(described), soft_wrap=True)
        await served.run(queues=queue, on_stuck=_on_stuck)
    document = {"store": described.url, "durability": described.durability.value, **counts.document()}
    output.answer(document, lambda: Text(counts.text()))


def _on_stuck() -> None:
    """The event loop is blocked for good: end, so that a supervisor starts us afresh (P11)."""
    logging.getLogger("redrive").critical("a handler has blocked the event loop for too long: ending")
    os._exit(Exit.FAILED)


def _settings(app: Redrive, flags: Flags, more: Mapping[str, object]) -> Settings:
    """What the app was made with, unless the command line says otherwise; code counts as a flag."""
    if flags == replace(NO_FLAGS, json=flags.json) and set(more.values()) == {None}:
        return app.settings
    made = app.settings
    in_code = {name for name in ("store", "profile") if made.origins.get(name) == "flag"}
    if "profile" in in_code and flags.profile is None:
        more = {**more, "profile": made.profile}
    settings = flags.settings(**more)
    if "store" in in_code and flags.store is None:
        return replace(settings, store=made.store)
    return settings


def _load(target: str) -> Redrive:
    module_name, mark, attribute = target.partition(":")
    if not module_name or not mark or not attribute:
        raise CommandError(
            f"{target!r} is not module:attribute: write shop:app for `app` in shop.py", Exit.USAGE
        )
    found: object = _import(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{module_name} has no {attribute!r}: name the Redrive app in it", Exit.USAGE)
        found = getattr(found, part)
    if not isinstance(found, Redrive):
        raise CommandError(
            f"{target} is a {type(found).__name__}, not a Redrive app: name what Redrive(...) made",
            Exit.USAGE,
        )
    return found


def _import(module_name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise CommandError(
                f"no module {module_name!r} in {folder} or among the installed ones: "
                "run from the folder that holds it",
                Exit.USAGE,
            ) from error
        raise _import_failed(module_name, error) from error
    except Exception as error:
        raise _import_failed(module_name, error) from error


def _import_failed(module_name: str, error: Exception) -> CommandError:
    frames = traceback.extract_tb(error.__traceback__)
    told = isinstance(error, SyntaxError) or not frames
    place = "" if told else f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return CommandError(
        f"importing {module_name} failed: {type(error).__name__}: {error}{place}; mend it, then start again",
        Exit.USAGE,
    )
