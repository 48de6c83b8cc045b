"""Every command is in docs/cli.md and takes --json; the library does not load the terminal's libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from redrive.cli import app
from redrive.cli.problems import Exit

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def _commands(group: App, above: str) -> Iterator[tuple[str, App]]:
    for name in group:
        command = group[name]
        if name.startswith("-"):
            continue
        path = f"{above} {name}"
        below = list(_commands(command, path))
        yield from below or [(path, command)]


COMMANDS = dict(_commands(app, "redrive"))


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 54


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_every_command(command: str) -> None:
    assert f"| `{command}" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_json_and_describes_itself(command: str) -> None:
    arguments = COMMANDS[command].assemble_argument_collection()
    assert "--json" in {name for argument in arguments for name in argument.names}
    assert COMMANDS[command].help


def test_the_page_has_every_exit_code() -> None:
    for code in Exit:
        assert f"\n| {code:d} |" in PAGE.read_text("utf-8")


def test_importing_the_library_loads_no_terminal_libraries() -> None:
    program = "import redrive, sys; print([name for name in ('rich', 'cyclopts') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
