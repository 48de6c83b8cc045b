"""Ids as they lie in Redis: a canonical UUID as its 16 bytes, any other text behind a byte that says so.

The two never meet: other text is stored in any length but 16.
"""

from __future__ import annotations

_UUID_TEXT = 36
_UUID_BYTES = 16
_TEXT = b"\x01"
_TEXT_OF_FIFTEEN = b"\x02\x02"


def pack_id(text: str) -> bytes:
    """The id as it is stored."""
    if len(text) == _UUID_TEXT and text[8] == text[13] == text[18] == text[23] == "-":
        digits = text.replace("-", "")
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            return _pack_text(text)
        if len(raw) == _UUID_BYTES and raw.hex() == digits:
            return raw
    return _pack_text(text)


def unpack_id(raw: bytes) -> str:
    """The id as the submitter wrote it."""
    if len(raw) == _UUID_BYTES:
        digits = raw.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return raw[len(_TEXT_OF_FIFTEEN) if raw.startswith(_TEXT_OF_FIFTEEN) else len(_TEXT) :].decode()


def _pack_text(text: str) -> bytes:
    raw = text.encode("utf-8", "replace")
    return (_TEXT_OF_FIFTEEN if len(raw) == _UUID_BYTES - 1 else _TEXT) + raw
