"""What one actor may see: of which tenant, and with which masks. Revealing stands in the audit first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from redrive.core.errors import RedriveError
from redrive.office.audit import Actor, action
from redrive.office.filters import Filter, parse
from redrive.office.filters.masked import masked_filter
from redrive.office.masking import UNMASKED, Mask
from redrive.office.ports import Books

F = TypeVar("F")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class OfficeAnswer(Generic[F, D]):
    """What was found, and the same as it goes out: scoped, masked or revealed."""

    found: F
    document: D


class NotFound(RedriveError):
    """What was named is not there, or not for this actor to see."""


class MayNotReveal(RedriveError):
    """Someone who sees letters with masks asked to see one without."""

    def __init__(self) -> None:
        super().__init__("this actor may not reveal payloads: ask someone who may")


class OutOfScope(RedriveError):
    """Someone who is bound to a tenant asked about all of them."""

    def __init__(self) -> None:
        super().__init__("this is about all tenants: use an actor that is bound to none")


class View:
    """The eyes of one actor. `scope`: the tenant it is bound to; nothing of another exists for it."""

    def __init__(self, store: Books, actor: Actor, scope: str | None, mask: Mask, *, reveals: bool) -> None:
        self._store = store
        self._actor = actor
        self._mask = mask
        self.reveals = reveals
        self.scope = scope

    def sees(self, tenant: str) -> bool:
        """Whether a tenant's messages are this actor's to see."""
        return self.scope in (None, tenant)

    def demand_all(self) -> None:
        """OutOfScope unless the actor is bound to no tenant."""
        if self.scope is not None:
            raise OutOfScope

    def filter(self, text: str) -> Filter:
        """What a text means for this actor; who may not reveal cannot ask about what is masked either."""
        asked = parse(text, self._store.now())
        return asked if self.reveals else masked_filter(asked, self._mask)

    def check(self, *, reveal: bool) -> None:
        """MayNotReveal when that is asked for and is not this actor's."""
        if reveal and not self.reveals:
            raise MayNotReveal

    def hides(self, name: str) -> bool:
        """Whether what stands under this name in a payload is masked in lists."""
        return self._mask.hides(name)

    async def mask(self, subject: Mapping[str, Any], *, reveal: bool) -> Mask:
        """The mask to show something with; where there is to be none, the audit says who sees what."""
        self.check(reveal=reveal)
        if not reveal:
            return self._mask
        async with action(self._store, self._actor, "reveal", subject):
            return UNMASKED
