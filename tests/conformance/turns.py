"""What fair means, checked on the order of hand-outs alone.

Independent of the stores' walk: it knows only who had ready work, the weights, and the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redrive.core.lanes import QUANTUM


def check_turns(
    order: Sequence[str], ready: Mapping[str, int], weights: Mapping[str, int] | None = None
) -> None:
    """Assert the bounds for an order of tenants, of whom each had `ready` messages at the beginning."""
    quanta = {tenant: QUANTUM * (weights or {}).get(tenant, 1) for tenant in ready}
    left = dict(ready)
    run = 0
    waited = dict.fromkeys(ready, 0)
    for position, tenant in enumerate(order):
        others = [other for other, count in left.items() if count and other != tenant]
        same = position > 0 and order[position - 1] == tenant
        run = run + 1 if same and others else 1
        assert run <= quanta[tenant], f"{run} in a row for {tenant} while {others} wait: {list(order)}"
        for other in others:
            waited[other] += 1
            bound = sum(quantum for name, quantum in quanta.items() if name != other)
            assert waited[other] <= bound, f"{other} waited {waited[other]} hand-outs: {list(order)}"
        waited[tenant] = 0
        left[tenant] -= 1
        assert left[tenant] >= 0, f"{tenant} was handed out more than it had"
