"""The files of deploy/, and what of them can be checked against the product: commands, variables, metrics."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from redrive.cli import app
from redrive.config.keys import VARIABLES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PLACEHOLDER = re.compile(r"\{\{ *\$labels\.(\w+) *\}\}")


def text(path: str) -> str:
    return (DEPLOY / path).read_text("utf-8")


def document(path: str) -> Any:
    return yaml.safe_load(text(path))


def documents(path: str) -> list[Any]:
    return list(yaml.safe_load_all(text(path)))


def check_command(arguments: Sequence[str]) -> None:
    """An error unless the command line takes these arguments; nothing is run."""
    command, _, _ = app.parse_args(list(arguments), exit_on_error=False, print_error=False)
    assert command is not None


def check_variable(name: str) -> None:
    """An error unless a REDRIVE_* variable is one that is read."""
    if name.startswith("REDRIVE_"):
        assert name in {*VARIABLES, "REDRIVE_CONFIG"}, name


def commands_named(sentence: str) -> list[list[str]]:
    """The commands of ours that a sentence tells people to run."""
    plain = PLACEHOLDER.sub("x", sentence)
    found = re.findall(
        r"\bredrive ((?:[a-z-]+ )*?[a-z-]+(?: --[a-z-]+ \w+)*)(?= says| shows|[;:,.]|$)", plain
    )
    return [shlex.split(one) for one in found]
