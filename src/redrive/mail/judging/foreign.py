"""A reply as other programs print it, made readable again: Python bytes, HTML, JSON, twice-decoded UTF-8.

Only what surely was an escape is undone; a text that is none comes back as it is. Every step is linear.
Known weakness: of two layers (HTML inside JSON) both are undone, of three the innermost stays.
"""

from __future__ import annotations

import html
import re

_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([nrt\\'\"/]))")
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
_WRITTEN = {"n": "\n", "r": "\r", "t": "\t"}
_SUSPECT = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u02dc\u2013-\u2122]")


def readable(text: str) -> str:
    """The text with escapes, entities and a wrong decoding undone."""
    if "\\" in text:
        text = _ESCAPED.sub(_letter, text)
    if "&" in text:
        text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return _decoded_once(text) if _SUSPECT.search(text) else text


def _letter(found: re.Match[str]) -> str:
    if found[3]:
        return _WRITTEN.get(found[3], found[3])
    return chr(int(found[1] or found[2], 16))


def _decoded_once(text: str) -> str:
    """UTF-8 that was read as Latin-1 or Windows-1252, read again; anything else unchanged."""
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return text
