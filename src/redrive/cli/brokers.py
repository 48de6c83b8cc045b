"""The commands that a broker's room brings along, such as `redrive rabbitmq`: this file knows no broker.

The rooms are listed in `redrive.brokers`, their commands in `commands.GROUPS` of a room, which is imported
when one of them is asked for. Known weakness: such a command takes plain flags only, no words of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from cyclopts import App

from redrive.brokers.tools import Groups, Tool, ToolDesk, ToolOutcome
from redrive.cli.output import Output
from redrive.cli.problems import Exit
from redrive.cli.session import NO_FLAGS, Flags

_EXITS = {
    ToolOutcome.DONE: Exit.OK,
    ToolOutcome.FAILED: Exit.FAILED,
    ToolOutcome.PARTIAL: Exit.PARTIAL,
}


def __getattr__(room: str) -> App:
    """The commands of a room, by its name."""
    if room.startswith("_"):
        raise AttributeError(room)
    groups: Groups = import_module(f"redrive.brokers.{room}.commands").GROUPS
    app = App(name=room)
    for group, (summary, tools) in groups.items():
        inner = App(name=group, help=summary)
        for name, tool in tools.items():
            inner.command(_face(tool), name=name)
        app.command(inner)
    return app


def _face(tool: Tool) -> Callable[..., Coroutine[Any, Any, int]]:
    """The tool as a command: its own flags, and those of every command."""

    async def run(*arguments: Any, flags: Flags = NO_FLAGS, **named: Any) -> int:
        settings = flags.settings()
        desk = ToolDesk(Output(flags.json), settings.store, settings.broker.topology)
        return _EXITS[await tool(desk, *arguments, **named)]

    asked = inspect.signature(tool, eval_str=True)
    common = inspect.Parameter("flags", inspect.Parameter.KEYWORD_ONLY, default=NO_FLAGS, annotation=Flags)
    own = list(asked.parameters.values())[1:]
    run.__signature__ = inspect.Signature([*own, common], return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*own, common)} | {"return": int}
    run.__doc__ = tool.__doc__
    return run
