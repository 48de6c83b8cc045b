"""`redrive docs`: the documentation that came with this installation, so that an error may point at it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from rich.text import Text

import redrive
from redrive.cli.output import Output
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags

_PACKAGE = Path(redrive.__file__).parent
_FOLDERS = (_PACKAGE / "documentation", _PACKAGE.parents[1] / "docs")
"""Where a wheel has the pages, and where a clone has them."""


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
