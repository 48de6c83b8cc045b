"""The README as a package index shows it: without the repository, so its links name `redrive docs PAGE`.

Hatchling calls it for the metadata of a build; the README itself keeps links that work in a clone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)\n*")
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")
_PAGE = re.compile(r"docs/([a-z-]+)\.md")


class IndexReadme(MetadataHookInterface):
    """Sets the project's readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Hatchling's call."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_repository(text)}


def without_repository(text: str) -> str:
    """The same page where nothing lies beside it: images go, a page of ours is named by its command."""
    return _LINK.sub(_words, _IMAGE.sub("", text))


def _words(link: re.Match[str]) -> str:
    page = _PAGE.match(link[2])
    return link[1] if page is None else f"{link[1]} (`redrive docs {page[1]}`)"
