"""How text becomes header lines: folding, encoded words (RFC 2047), file names (RFC 2231).

Takes text that was checked before (no control characters) and answers with whole lines that end in CRLF.
A line stays within 76 characters wherever a space allows it and within 998 bytes always. Text that a
reader would take for an encoded word is itself encoded, so that it is shown as it was written.
Known weaknesses: an encoded word may end between an emoji and its modifier, which readers join again; and
a header name of over 40 letters makes a longer first line, for a break after the colon would add a space.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from collections.abc import Callable
from math import ceil
from urllib.parse import quote

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_LINE = 76
_SHORT_LINE = 78
_LONGEST_WORD = 900
_WORD = re.compile(" *[^ ]+")
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_Q_PLAIN = _LETTERS + b"!*+-/"
_Q = [chr(byte) if byte in _Q_PLAIN else f"={byte:02X}" for byte in range(256)]
_Q[0x20] = "_"
_ENCODED_WORD = 75
_FRAME = len("=?utf-8?q??=")
_LEAST_ROOM = 32
_PARAMETER_ROOM = 50
_PARAMETER_PLAIN = "!#$&+-.^_`|~"
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]++(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]++)*+")
_FILENAME = re.compile(r"[A-Za-z0-9 !#$&()+,.;=@\[\]^_`{}~-]{1,60}")


def is_plain(text: str) -> bool:
    """ASCII that no reader takes for an encoded word."""
    return text.isascii() and not ("=?" in text and "?=" in text)


def unstructured(name: str, value: str) -> str:
    """The lines of a header whose value is free text, such as Subject."""
    if not is_plain(value):
        return fold(name, _with_encoded_words(name, value))
    if len(value) > _LONGEST_WORD and max(map(len, value.split(" "))) > _LONGEST_WORD:
        return fold(name, " ".join(encoded_words(value, _LEAST_ROOM)))
    return fold(name, value)


def fold(name: str, value: str) -> str:
    """The lines of a header whose value is ready: broken at spaces, every space kept."""
    if len(name) + 2 + len(value) <= _SHORT_LINE:
        return f"{name}: {value}\r\n"
    lines, line = [], f"{name}:"
    for place, word in enumerate(_WORD.findall(f" {value}")):
        if place and len(line) + len(word) > _LINE:
            lines.append(line)
            line = word
        else:
            line += word
    return "\r\n".join([*lines, line, ""])


def phrase(name: str) -> str:
    """A display name as it stands before an address: atoms, a quoted string, or encoded words."""
    if _ATOMS.fullmatch(name) and is_plain(name):
        return name
    if is_plain(name):
        return quoted_string(name)
    return " ".join(encoded_words(name))


def quoted_string(text: str) -> str:
    """ASCII in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def encoded_words(text: str, room: int = _ENCODED_WORD) -> list[str]:
    """Encoded words of at most 75 characters, the first of at most `room`; no character is split."""
    data = text.encode()
    first, rest = min(room, _ENCODED_WORD) - _FRAME, _ENCODED_WORD - _FRAME
    if len(data) + 2 * len(data.translate(None, _Q_PLAIN + b" ")) <= 4 * ceil(len(data) / 3):
        return [f"=?utf-8?q?{_q(piece)}?=" for piece in _split(text, lambda one: len(_q(one)), first, rest)]
    pieces = _split(text, lambda one: len(one.encode()), first // 4 * 3, rest // 4 * 3)
    return [f"=?utf-8?b?{b64encode(piece.encode()).decode()}?=" for piece in pieces]


def disposition(kind: str, filename: str) -> str:
    """The Content-Disposition lines; a name that is not simple comes by RFC 2231 and, after it, in ASCII.

    The extended name stands first because Python's own parser believes whichever comes first.
    """
    head = f"Content-Disposition: {kind};\r\n "
    if _FILENAME.fullmatch(filename) and is_plain(filename):
        return f'{head}filename="{filename}"\r\n'
    parameters = [*_extended("filename", filename), f'filename="{_ascii_filename(filename)}"']
    return head + ";\r\n ".join(parameters) + "\r\n"


def _with_encoded_words(name: str, value: str) -> str:
    """The value with everything encoded from its first to its last word that needs it."""
    words = value.split(" ")
    needy = [place for place, word in enumerate(words) if not _stays(word)]
    first, end = needy[0], needy[-1] + 1
    room = max(_LINE - len(name) - 2, _LEAST_ROOM) if first == 0 else _ENCODED_WORD
    return " ".join([*words[:first], *encoded_words(" ".join(words[first:end]), room), *words[end:]])


def _stays(word: str) -> bool:
    return word.isascii() and "=?" not in word and "?=" not in word and len(word) <= _LONGEST_WORD


def _q(text: str) -> str:
    return "".join([_Q[byte] for byte in text.encode()])


def _split(text: str, size: Callable[[str], int], first: int, rest: int) -> list[str]:
    """Pieces of whole characters whose sizes add up to at most `first`, then `rest`."""
    pieces, start, used, limit = [], 0, 0, first
    for position, character in enumerate(text):
        needed = size(character)
        used += needed
        if used > limit:
            pieces.append(text[start:position])
            start, used, limit = position, needed, rest
    return [*pieces, text[start:]]


def _extended(name: str, value: str) -> list[str]:
    pieces = _split(value, lambda one: len(_percent(one)), _PARAMETER_ROOM, _PARAMETER_ROOM)
    if len(pieces) == 1:
        return [f"{name}*=utf-8''{_percent(value)}"]
    charset = ["utf-8''"] + [""] * (len(pieces) - 1)
    return [f"{name}*{number}*={charset[number]}{_percent(piece)}" for number, piece in enumerate(pieces)]


def _percent(text: str) -> str:
    return quote(text, safe=_PARAMETER_PLAIN)


def _ascii_filename(filename: str) -> str:
    """What a reader without RFC 2231 shows: accents dropped, anything else a low line."""
    letters = [one for one in unicodedata.normalize("NFKD", filename) if not unicodedata.combining(one)]
    return "".join([one if _FILENAME.fullmatch(one) else "_" for one in letters])
