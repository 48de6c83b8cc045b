"""What a preview answers: how many letters, whose, why they died, and of which instant that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redrive.office.operations.operation import Order

if TYPE_CHECKING:
    from redrive.office.emptiness import Emptiness


@dataclass(frozen=True, slots=True)
class Preview:
    """What an order would do. `split` counts by queue, tenant and reason, the most first, then by name.

    `causes` counts by code and reason. `order` is what was asked, with canary and rate decided. `as_of` is
    when it was counted: an order that carries it and the count (`Order.as_previewed`) takes these letters.
    """

    order: Order
    count: int
    expired: int
    gone: int
    missing: int
    split: tuple[tuple[tuple[str, str, str], int], ...]
    causes: tuple[tuple[tuple[str, str], int], ...]
    samples: tuple[str, ...]
    budget: int
    as_of: int
    empty: Emptiness | None = None

    @property
    def over_budget(self) -> bool:
        return self.count > self.budget

    @property
    def lasts_s(self) -> float | None:
        """How long its rate makes it last; None without one."""
        return self.order.lasts_s(self.count)
