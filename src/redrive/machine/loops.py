"""Which event loop a process of ours runs: uvloop where that is installed, unless the settings say otherwise.

Only for processes that are Redrive's own, `redrive worker` and `redrive serve`: in a program of one's own,
whoever starts the loop chooses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, uvloop: bool) -> T:
    """Run to its end on a loop of its own; `uvloop` says whether that one may be used."""
    with asyncio.Runner(loop_factory=_uvloop() if uvloop else None) as runner:
        return runner.run(main)


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        return None
    return new_event_loop
