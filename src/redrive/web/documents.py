"""JSON that comes in: decoded by msgspec, with everything that is wrong collected before it is refused.

A batch is decoded item by item, so that one problem lists every bad item. What an item says is never
repeated in an answer, only the names of its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from redrive.core.errors import InvalidMessage
from redrive.core.failure import clip
from redrive.core.redaction import printable
from redrive.web.limits import JSON_DEPTH, is_deep
from redrive.web.problems import BAD_JSON, INVALID, FieldError, Refusal, field_errors

BATCH = 1_000
_SHOWN_LENGTH = 300
_PLACE = re.compile(r"(.*?)(?: - at (?:key in )?`\$\.?(.*)`)?", re.DOTALL)
_ANY = msgspec.json.Decoder()

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], document: bytes | msgspec.Raw) -> T:
    """The document, or Refusal: as bad JSON, or naming the first field that does not fit."""
    try:
        return decoder.decode(document)
    except msgspec.ValidationError as error:
        raise Refusal(INVALID, "the document does not fit: see errors", [misfit(error)]) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Refusal(BAD_JSON, "the document is not JSON in UTF-8") from None
    except RecursionError:
        raise _too_deep() from None


def collect(documents: Sequence[msgspec.Raw], make: Callable[[int, msgspec.Raw], T]) -> list[T]:
    """What `make` makes of each item, or Refusal with everything that is wrong with any of them."""
    if not 1 <= len(documents) <= BATCH:
        raise Refusal(INVALID, f"a batch has 1 to {BATCH:,} items, and this one has {len(documents):,}")
    items: list[T] = []
    errors: list[FieldError] = []
    for index, document in enumerate(documents):
        try:
            items.append(make(index, document))
        except InvalidMessage as error:
            errors += [_placed(one, index) for one in field_errors(error)]
        except Refusal as refused:
            if refused.kind not in (BAD_JSON, INVALID):
                raise
            errors += [_placed(one, index) for one in refused.errors or (FieldError("", refused.detail),)]
    if errors:
        raise Refusal(INVALID, "nothing of the batch was accepted: see errors", errors)
    return items


def check_payload(payload: msgspec.Raw) -> None:
    """Refusal when a payload that will be kept as it came cannot be read by a handler."""
    document = bytes(payload)
    decoded: Any = decode(_ANY, document)
    if document.count(b"[") + document.count(b"{") > JSON_DEPTH and is_deep(decoded):
        raise _too_deep()


def _placed(error: FieldError, index: int) -> FieldError:
    return FieldError(error.field, error.problem, index)


def _too_deep() -> Refusal:
    return Refusal(BAD_JSON, f"the document is nested deeper than {JSON_DEPTH} levels")


def misfit(error: msgspec.ValidationError) -> FieldError:
    """What does not fit, by the name of its field."""
    found = _PLACE.fullmatch(printable(clip(str(error), _SHOWN_LENGTH)))
    problem, field = (found[1], found[2] or "") if found else ("does not fit", "")
    return FieldError(field, problem[:1].lower() + problem[1:])
