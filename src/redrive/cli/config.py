"""`redrive config show`, `docs` and `backup`: every setting and where it comes from, the documentation that
came with this installation, so that an error may point at it, and a copy of a store in a file while it is
in use.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from cyclopts import App
from rich.table import Table
from rich.text import Text

import redrive
from redrive.cli.output import Output, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.config import Settings
from redrive.core.store import Backup

config = App(name="config")

_PACKAGE = Path(redrive.__file__).parent
_FOLDERS = (_PACKAGE / "documentation", _PACKAGE.parents[1] / "docs")
"""Where a wheel has the pages, and where a clone has them."""


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


async def backup(file: Path, /, *, flags: Flags = NO_FLAGS) -> None:
    """Copy the SQLite store into a new file, while workers go on.

    Parameters
    ----------
    file
        The new file; one that exists is refused.
    """
    async with session(flags) as current:
        if not isinstance(current.store, Backup):
            raise CommandError(
                "this store is a server and has its own backup: use its tools; redrive backup copies SQLite",
                Exit.USAGE,
            )
        _check_target(file)
        with current.output.progress(f"copying to {file.name}", None) as advance:
            await current.store.backup(file, lambda copied, _: advance(copied))
        size = _size(file)
        document = {"file": str(file), "bytes": size}
        current.output.answer(document, lambda: Text(f"{file}: {size:,} bytes"))


def _check_target(file: Path) -> None:
    if file.exists():
        raise CommandError(f"{file} exists and is not overwritten: name a new file", Exit.USAGE)
    if not file.absolute().parent.is_dir():
        raise CommandError(f"the folder of {file} does not exist: make it first", Exit.USAGE)


def _size(file: Path) -> int:
    return file.stat().st_size


def docs(page: str | None = None, /, *, flags: Flags = NO_FLAGS) -> None:
    """Print a page of the documentation, such as filters; without one, say which there are.

    Parameters
    ----------
    page
        The name of the page.
    """
    output, pages = Output(flags.json), _pages()
    if page is None:
        output.answer({"pages": sorted(pages)}, lambda: Text("\n".join(sorted(pages))))
        return
    path = pages.get(page.removesuffix(".md"))
    if path is None:
        near = get_close_matches(page, pages, n=1)
        known = f"did you mean {near[0]}?" if near else f"there is: {', '.join(sorted(pages))}"
        raise CommandError(f"no page {page!r}; {known}", Exit.NOT_FOUND)
    text = path.read_text("utf-8")
    output.answer({"page": path.stem, "text": text}, lambda: Text(text.rstrip("\n")))


def _pages() -> dict[str, Path]:
    folder = next((one for one in _FOLDERS if one.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in folder.glob("*.md")}
