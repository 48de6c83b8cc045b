"""The apps that a command line names as module:attribute, with the settings of that command line.

The module is named by the operator, never by stored data, and is looked for in the working folder
first. What importing it raises is reported in one line with its place.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from msgspec import structs

from redrive.app import Redrive
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags
from redrive.config import Settings, mask_url

_OURS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Work:
    """What one app serves in a worker; no queues: all of its own."""

    app: Redrive
    queues: tuple[str, ...] = ()


def make_work(
    targets: Sequence[str], queues: Sequence[str], *, mail: bool, flags: Flags, more: Mapping[str, object]
) -> list[Work]:
    """The named apps, the first of which serves `email:send` too with `mail`, and what of `queues` is whose.

    Apps in one worker share a store, and each queue has its handler in one of them.
    """
    named = dict(zip(targets or (None,), _make_apps(targets, mail=mail, flags=flags, more=more), strict=True))
    _check_stores(named)
    homes = _homes(named)
    if not homes:
        raise CommandError(
            f"{' and '.join(targets)} has no handler: register one with @app.handler(queue)", Exit.USAGE
        )
    if not queues:
        return [Work(app) for app in named.values() if app in homes.values()]
    for queue in queues:
        if queue not in homes:
            raise CommandError(
                f"no handler for {queue!r} here: register one, or name one of {', '.join(homes)}", Exit.USAGE
            )
    chosen = [Work(app, tuple(one for one in queues if homes[one] is app)) for app in named.values()]
    return [work for work in chosen if work.queues]


def _make_apps(
    targets: Sequence[str], *, mail: bool, flags: Flags, more: Mapping[str, object]
) -> list[Redrive]:
    for index, target in enumerate(targets):
        if target in targets[:index]:
            raise CommandError(f"{target} is named twice: name each app once", Exit.USAGE)
    first, *others = targets or (None,)
    return [
        make_app(first, mail=mail, flags=flags, more=more),
        *(make_app(other, mail=False, flags=flags, more=more) for other in others),
    ]


def _check_stores(named: Mapping[str | None, Redrive]) -> None:
    stores = {target: app.settings.store for target, app in named.items()}
    (first, store), *others = stores.items()
    for other, another in others:
        if another != store:
            raise CommandError(
                f"{first} is on {mask_url(store)} and {other} on {mask_url(another)}: "
                "apps in one worker share a store; say which with --store, or start a worker for each",
                Exit.USAGE,
            )


def _homes(named: Mapping[str | None, Redrive]) -> dict[str, Redrive]:
    """Which app serves each queue."""
    homes: dict[str, Redrive] = {}
    names: dict[str, str | None] = {}
    for target, app in named.items():
        for served in app.served():
            if served.queue in homes:
                raise CommandError(
                    f"{served.queue} has a handler in {names[served.queue]} and in {target}: a queue has "
                    "one; start a worker for each app, with --queue where they overlap",
                    Exit.USAGE,
                )
            homes[served.queue], names[served.queue] = app, target
    return homes


def make_app(target: str | None, *, mail: bool, flags: Flags, more: Mapping[str, object]) -> Redrive:
    """The named app, or one of our own; with `mail` it serves `email:send` too."""
    if target is None:
        app = Redrive(settings=flags.settings(**more))
    else:
        app = _load(target)
        app.configure(_settings(app, flags, more))
    if mail:
        app.serve_mail()
    return app


def _settings(app: Redrive, flags: Flags, more: Mapping[str, object]) -> Settings:
    """What the app was made with, with what the command line says on top.

    An app that was given whole settings keeps the store and the profile of them.
    """
    if flags == replace(NO_FLAGS, json=flags.json) and set(more.values()) == {None}:
        return app.settings
    made = app.settings
    whole = {name for name in ("store", "profile") if made.origins.get(name) == "flag"}
    if "profile" in whole and flags.profile is None:
        more = {**more, "profile": made.profile}
    settings = flags.settings(made.code, **more)
    if "store" in whole and flags.store is None:
        return structs.replace(settings, store=made.store)
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
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(_OURS)
    ]
    placed = isinstance(error, SyntaxError) or not frames
    place = "" if placed else f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return CommandError(
        f"importing {module_name} failed: {type(error).__name__}: {error}{place}; fix it, then start again",
        Exit.USAGE,
    )
