"""Every command is in docs/cli.md and takes --json; the library does not load the terminal's libraries."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest
from cyclopts import App

import redrive
from redrive.cli import app
from redrive.cli.problems import Exit
from tests.cli.conftest import Shop

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
    assert {"redrive worker", "redrive dlq redrive", "redrive mail send"} <= COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_every_command(command: str) -> None:
    assert f"| `{command}" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_json_and_describes_itself(command: str) -> None:
    arguments = COMMANDS[command].assemble_argument_collection()
    assert "--json" in {name for argument in arguments for name in argument.names}
    assert COMMANDS[command].help


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_flag_does_is_one_line_so_that_the_terminal_breaks_it(command: str) -> None:
    for argument in COMMANDS[command].assemble_argument_collection():
        assert "\n" not in (argument.parameter.help or ""), argument.names


@pytest.mark.parametrize("command", [name for name in COMMANDS if name.count(" ") == 1])
def test_the_list_of_commands_says_what_the_command_says(command: str) -> None:
    described = COMMANDS[command].default_command
    assert described is not None
    assert (described.__doc__ or "").splitlines()[0] == COMMANDS[command].help


def test_the_list_of_commands_is_shown_without_loading_one() -> None:
    program = "import sys; from redrive.cli import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in result.stderr.split() if name.startswith("redrive.")}
    commands = [name for name in result.stderr.split() if name.startswith("redrive.cli.")]
    assert "up " in result.stdout
    assert rooms <= {"brokers", "cli", "core", "version"}
    assert not [name for name in result.stderr.split() if name.startswith("redrive.brokers.")]
    assert set(commands) == {"redrive.cli.output", "redrive.cli.problems"}


def test_every_public_name_is_there() -> None:
    for name in redrive.__all__:
        assert getattr(redrive, name) is not None


def test_the_page_has_every_exit_code() -> None:
    for code in Exit:
        assert f"\n| {code:d} |" in PAGE.read_text("utf-8")


def test_importing_the_library_loads_only_what_submitting_needs() -> None:
    """Neither a store, an office, mail, a broker or a worker, nor what only they or a terminal need."""
    program = "import sys; from redrive import Redrive; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    rooms = {name.split(".")[1] for name in loaded if name.startswith("redrive.") and name.count(".") > 1}
    assert rooms == {"config", "core", "engine", "machine", "telemetry"}
    assert not loaded & {"redrive.engine.worker", "redrive.core.letters", "redrive.core.store"}
    assert not loaded & {"apsw", "cyclopts", "email", "http", "redis", "rich", "sqlite3", "tomllib"}


def test_the_documentation_comes_along(shop: Shop) -> None:
    assert {"filters", "redis", "sql", "python"} <= set(shop.ok("docs")["pages"])
    assert shop.ok("docs", "filters")["text"].startswith("# ")
    missing = shop("docs", "filtres")
    assert (missing.code, "did you mean filters?" in missing.error) == (Exit.NOT_FOUND, True)


def test_no_text_of_ours_points_at_a_file_of_the_repository() -> None:
    """An installed wheel has no docs/ and no README: errors name `redrive docs PAGE`, whose page is there."""
    pages = {path.stem for path in PAGE.parent.glob("*.md")}
    for path in Path(redrive.__file__).parent.rglob("*.py"):
        strings = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if _is_text(node)]
        for text in (str(one.value) for one in strings if not _is_docstring(str(one.value))):
            assert "docs/" not in text.replace("/docs/docs.css", ""), (path, text)
            for page in re.findall(r"redrive docs ([a-z-]+)", text):
                assert page in pages, (path, text)


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_docstring(text: str) -> bool:
    return text.endswith((".", ".\n")) and text[:1].isupper()
