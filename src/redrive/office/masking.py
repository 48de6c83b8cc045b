"""What is shown of a letter: masked, unless someone who may see it asks to (`view` has it audited).

A payload that is not JSON may hold anything and is masked whole; so is the text of a mail. What is
masked is a copy: the store and the
archives keep everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redrive.core.redaction import MASKED, is_secret, mask, redact

_MAIL = frozenset({"from", "to", "messageId"})
_MAIL_TEXT = frozenset({"content", "raw"})


class Mask:
    """Masks what is shown; `names` are payload fields to mask besides the usual ones."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)

    @classmethod
    def parse(cls, text: str) -> Mask:
        """The names as a setting lists them, separated by commas."""
        return cls(filter(None, (name.strip() for name in text.split(","))))

    def payload(self, payload: Any) -> Any:
        """A payload as everyone may see it."""
        if isinstance(payload, Mapping) and payload.keys() == {"base64"}:
            return {"base64": MASKED}
        shown = mask(payload, self._names)
        if isinstance(shown, dict) and shown.keys() >= _MAIL:
            shown |= dict.fromkeys(shown.keys() & _MAIL_TEXT, MASKED)
        return shown

    def text(self, text: str) -> str:
        """A text that may quote someone's data, such as the reason of a failure."""
        return redact(text)

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Headers and the like."""
        masked: dict[str, Any] = mask(dict(fields), self._names)
        return masked

    def hides(self, name: str) -> bool:
        """Whether what stands under this name in a payload is masked, or the name itself is."""
        return name in _MAIL_TEXT or is_secret(name, self._names) or redact(name) != name


class Unmasked(Mask):
    """Shows everything: for those who may see it, after the audit was told."""

    def payload(self, payload: Any) -> Any:
        return payload

    def text(self, text: str) -> str:
        return text

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return dict(fields)


UNMASKED = Unmasked()
