"""`redrive config show`: every setting, its value and where it comes from."""

from __future__ import annotations

from cyclopts import App
from rich.table import Table

from redrive.cli.output import Output, name
from redrive.cli.session import NO_FLAGS, Flags
from redrive.config import Settings

config = App(name="config")


@config.command
def show(*, flags: Flags = NO_FLAGS) -> None:
    """Every setting, its value and its origin."""
    settings, output = flags.settings(), Output(flags.json)
    rows = [
        {"key": key, "value": value, "origin": settings.origins.get(key, "default")}
        for key, value in settings.values().items()
    ]
    output.answer({"settings": rows}, lambda: _table(output, settings))


def _table(output: Output, settings: Settings) -> Table:
    table = output.table("setting", "value", "from", words=("value",))
    for key, value in settings.values().items():
        origin = settings.origins.get(key, "default")
        shown = "none" if value is None else value
        table.add_row(name(key), name(shown), name(origin, "dim" if origin == "default" else "cyan"))
    return table
