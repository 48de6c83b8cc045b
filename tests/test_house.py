"""The house keeps its own rules: complete tables, one class a name, reasons in words."""

from __future__ import annotations

import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType

import redrive

SOURCE = Path(redrive.__file__).parent
ROOT = Path(__file__).parents[1]
PRIVATE_NUMBER = re.compile(r"(?<![>\w])(?:[PIRS][1-9]\d?|DESIGN rule \d+)\b")
"""The numbers of lists that nobody outside has; the reason belongs there in words."""


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages([str(SOURCE)], "redrive."):
        if not found.name.endswith("__main__"):
            yield import_module(found.name)


def tables(module: ModuleType) -> Iterator[tuple[str, type[Enum], dict[Enum, object]]]:
    """The module's tables that are keyed by one enum."""
    for name, value in vars(module).items():
        if type(value) is dict and value and all(isinstance(key, Enum) for key in value):
            kinds = {type(key) for key in value}
            if len(kinds) == 1:
                yield f"{module.__name__}.{name}", kinds.pop(), value


def test_a_table_keyed_by_an_enum_has_every_member() -> None:
    missing = {
        name: sorted(member.name for member in kind if member not in table)
        for module in modules()
        for name, kind, table in tables(module)
    }
    assert {name: members for name, members in missing.items() if members} == {}


def test_a_public_class_name_stands_once() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for name, value in vars(module).items():
            if (
                issubclass(type(value), type)
                and value.__module__ == module.__name__
                and not name.startswith("_")
            ):
                places[value.__name__].add(module.__name__)
    assert {name: sorted(where) for name, where in places.items() if len(where) > 1} == {}


def test_no_private_number_stands_in_source_tests_or_pages() -> None:
    folders = (SOURCE, *(ROOT / name for name in ("tests", "bench", "script", "docs", "deploy")))
    written = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".py", ".lua", ".sql", ".toml", ".md")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if PRIVATE_NUMBER.search(line)
    ]
    named = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", path.read_text("utf-8"), re.MULTILINE)
        if re.search(r"_[pirs][1-9]\d?(?:_|$)", name)
    ]
    assert written + named == []


def test_a_decision_has_a_number_of_its_own() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in records]
    assert numbers == list(range(1, len(records) + 1))
    headings = [path.read_text("utf-8").partition("\n")[0] for path in records]
    assert all(heading.startswith(f"# {number}. ") for number, heading in zip(numbers, headings, strict=True))
