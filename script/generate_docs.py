"""Writes the generated parts of the documentation, so that no table is kept by hand.

A part stands between `<!-- generated: name -->` and `<!-- end -->`, in README.md or below docs/. With
--check nothing is written and stale files are named. An unknown part, a part that no page shows and a
setting without a meaning in script/settings.toml are errors.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from cyclopts import App
from cyclopts.argument import Argument

from redrive.app import Redrive
from redrive.cli import app as cli
from redrive.cli.session import Flags
from redrive.config.keys import NAMES, SECTIONS, VARIABLES
from redrive.config.settings import Settings
from redrive.core import lifecycle
from redrive.core.alert_rules import DEFAULT_RULES
from redrive.core.retry import PROFILES, delay_table
from redrive.core.settings import QueueSettings
from redrive.mail.judging.rules import markdown_table as mail_rules
from redrive.mailbox.behaviours import markdown_table as mailbox_addresses
from redrive.stores.redis.scripts import markdown_table as redis_keys
from redrive.telemetry.hooks import markdown_table as hooks
from redrive.telemetry.metrics import markdown_table as metrics
from redrive.web.access import Anyone, Route
from redrive.web.admin.routes import admin_routes as routes_of

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.S)


def show(value: object) -> str:
    """A value as TOML and people write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if value < 1_000_000 else f"{value:.0f}"
    return str(value)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def profile_table() -> str:
    """Each field of the retry policy in each profile."""
    rows = [
        (f"`{name}`", *(show(getattr(policy, name)) for policy in PROFILES.values()))
        for name in NAMES["retry"]
    ]
    return table(("", *PROFILES), rows)


def settings_table(section: str, meanings: Mapping[str, str]) -> str:
    """The keys of a section with default, variable and meaning."""
    variables = {place: variable for variable, place in VARIABLES.items()}
    values = Settings().values()
    rows = []
    for name in NAMES[section]:
        default = show(values[f"{section}.{name}" if section else name]) or "."
        rows.append((f"`{name}`", f"`{default}`", f"`{variables[section, name]}`", meanings[name]))
    return table(("key", "default", "variable", "meaning"), rows)


def queue_table(meanings: Mapping[str, str]) -> str:
    """The keys that only a queue has."""
    defaults = QueueSettings()
    rows = [
        (f"`{each.name}`", f"`{show(getattr(defaults, each.name))}`", meanings[each.name])
        for each in msgspec.structs.fields(QueueSettings)
    ]
    return table(("key", "default", "meaning"), rows)


def alert_table() -> str:
    """Every rule that holds unless configuration changes it."""
    rows = [
        (
            f"`{rule.name}`",
            f"`{rule.metric}`" + (", unusual" if rule.unusual else ""),
            rule.scope.value,
            f"{show(float(rule.above))} / {show(float(rule.above if rule.clear is None else rule.clear))}",
            show(rule.window_s) if rule.window_s else "",
            show(rule.least) if rule.least else "",
            rule.severity.value,
        )
        for rule in DEFAULT_RULES.values()
    ]
    return table(("alert", "metric", "scope", "above / clear", "window_s", "least", "severity"), rows)


def command_table() -> str:
    """Every command with its arguments, what it says of itself, and its flags."""
    rows = [_command_row(path, command) for path, command in _commands(cli, "redrive")]
    return table(("command", "what it does", "flags"), rows)


def _commands(group: App, above: str) -> Iterator[tuple[str, App]]:
    for name in group:
        if not name.startswith("-"):
            below = list(_commands(group[name], f"{above} {name}"))
            yield from below or [(f"{above} {name}", group[name])]


def _command_row(path: str, command: App) -> tuple[str, str, str]:
    arguments = [one for one in command.assemble_argument_collection() if one.names[0] != "*" and one.show]
    places = [_place(one) for one in arguments if not one.names[0].startswith("-")]
    flags = [one.names[0] for one in arguments if one.names[0].startswith("-")]
    common = {f"--{each.name}" for each in fields(Flags)}
    own = ", ".join(f"`{flag}`" for flag in flags if flag not in common)
    return f"`{' '.join([path, *places])}`", command.help.strip().splitlines()[0], own


def _place(argument: Argument) -> str:
    name = argument.names[0]
    if argument.field_info.kind is argument.field_info.VAR_POSITIONAL:
        return f"[{name}...]"
    return name if argument.required else f"[{name}]"


def route_table(folder: str) -> str:
    """The admin routes, each with its permission and what it does."""
    operations = asyncio.run(admin_routes(folder))
    rows = [
        (
            f"`{one.method} {one.path}`",
            ", ".join(sorted(one.allowed)) + (", unbound" if one.unbound else ""),
            one.summary,
        )
        for one in operations
        if not isinstance(one.allowed, Anyone)
    ]
    return table(("route", "permission", "what it does"), rows)


async def admin_routes(folder: str) -> list[Route]:
    """The admin routes as the code declares them, on a store that is thrown away."""
    settings = Settings(store=f"sqlite:///{folder}/redrive.db")
    async with Redrive(settings=settings) as app:
        return routes_of(app)


def parts() -> dict[str, str]:
    """Every generated part by its name."""
    meanings: dict[str, Any] = tomllib.loads((ROOT / "script/settings.toml").read_text("utf-8"))
    made = {
        "alert rules": alert_table(),
        "commands": command_table(),
        "lifecycle table": lifecycle.markdown_table(),
        "lifecycle diagram": f"```mermaid\n{lifecycle.mermaid()}\n```",
        "profiles": profile_table(),
        "settings top": settings_table("", meanings["top"]),
        "settings queues": queue_table(meanings["queues"]),
    }
    made |= {"mail rules": mail_rules(), "mailbox addresses": mailbox_addresses()}
    made |= {"redis keys": redis_keys(), "metrics": metrics(), "hooks": hooks()}
    with TemporaryDirectory() as folder:
        made["admin routes"] = route_table(folder)
    made |= {f"delays {name}": delay_table(policy) for name, policy in PROFILES.items()}
    made |= {f"settings {section}": settings_table(section, meanings[section]) for section in SECTIONS}
    return made


def renew(text: str, made: Mapping[str, str], shown: set[str]) -> str:
    """The page with its parts as they should be; adds the names of its parts to `shown`."""

    def part(match: re.Match[str]) -> str:
        shown.add(match[2])
        return f"{match[1]}{made[match[2]]}\n{match[3]}"

    return PART.sub(part, text)


def main(arguments: list[str]) -> int:
    """0 when all is well, 1 with the names of stale files or of what is missing."""
    made, shown, stale = parts(), set[str](), list[str]()
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]):
        text = page.read_text("utf-8")
        renewed = renew(text, made, shown)
        if renewed != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in arguments:
                page.write_text(renewed, "utf-8")
    if made.keys() - shown:
        print(f"docs: no page shows {', '.join(sorted(made.keys() - shown))}", file=sys.stderr)
        return 1
    if stale and "--check" in arguments:
        print(f"docs: stale, run script/docs: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyError as error:
        sys.exit(f"docs: {error} is an unknown part, or a setting without a meaning in script/settings.toml")
