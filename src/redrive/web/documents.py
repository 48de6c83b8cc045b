"""JSON in and out. What comes in is decoded by msgspec, and all that is wrong is collected before it is
refused.

A batch is decoded item by item, so that one problem lists every bad item. What an item says is never
repeated in an answer, only the names of its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response

from redrive.core.errors import InvalidMessage
from redrive.core.failure import clip
from redrive.core.redaction import printable
from redrive.web.limits import JSON_DEPTH, is_deep
from redrive.web.problems import BAD_JSON, INVALID, FieldError, Refusal, field_errors

BATCH = 1_000
_SHOWN_LENGTH = 300
_PLACE = re.compile(r"(.*?)(?: - at (?:key in )?`\$\.?(.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_BAD_CHOICE = "Invalid enum value"
_ANY = msgspec.json.Decoder()

T = TypeVar("T")

MOST_S: Final = 365 * 86_400
"""The longest delay or time to live that a request may ask for."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODER: Final = msgspec.json.Encoder()


def decode(decoder: msgspec.json.Decoder[T], document: bytes | msgspec.Raw) -> T:
    """The document, or Refusal: as bad JSON, or naming the first field that does not fit."""
    try:
        return decoder.decode(document)
    except msgspec.ValidationError as error:
        raise Refusal(
            INVALID, "the document does not fit: see errors", [misfit(error, decoder.type)]
        ) from None
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


def misfit(error: msgspec.ValidationError, kind: Any) -> FieldError:
    """What does not fit, by the name of its field; `kind` is what the whole should have been."""
    found = _PLACE.fullmatch(printable(clip(str(error), _SHOWN_LENGTH)))
    problem, field = (found[1], found[2] or "") if found else ("does not fit", "")
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown is not None and not field and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _unknown_field(unknown[1], kind.__struct_encode_fields__)
    if problem.startswith(_BAD_CHOICE) and (choices := _choices(kind, field)):
        return FieldError(field, f"is none of {', '.join(choices)}")
    return FieldError(field, problem[:1].lower() + problem[1:])


def _choices(kind: Any, field: str) -> list[str]:
    """The words that may stand in a field; none where it takes others than a few."""
    from msgspec import inspect

    whole = inspect.type_info(kind)
    for one in whole.fields if isinstance(whole, inspect.StructType) else ():
        plain = one.type.type if isinstance(one.type, inspect.Metadata) else one.type
        if one.encode_name == field and isinstance(plain, inspect.LiteralType):
            return [str(value) for value in plain.values]
    return []


def _unknown_field(name: str, known: Sequence[str]) -> FieldError:
    near = get_close_matches(name, known, n=1)
    advice = (
        f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}" if known else "leave it out"
    )
    return FieldError(name, f"is not known here: {advice}")


def milliseconds(at: datetime | None, field: str, refused: str) -> int | None:
    """An instant of a document as stores know it; Refusal where it says no offset, or is before 1970."""
    if at is None:
        return None
    if at.tzinfo is None:
        raise Refusal(INVALID, refused, [FieldError(field, "has no offset: write 2026-01-31T08:00:00Z")])
    if at < _EPOCH:
        raise Refusal(INVALID, refused, [FieldError(field, "is before 1970")])
    return (at - _EPOCH) // timedelta(milliseconds=1)


def respond(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_ENCODER.encode(document), status, headers=headers, media_type="application/json")
