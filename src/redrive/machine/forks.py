"""Who has to know that this process is the child of a fork: whoever holds locks, threads or connections.

A child inherits the objects of its parent, but neither its threads nor a right to its connections: it must
not close them (that can reach the parent's end of them) and cannot use them. `forked` puts them away, and
the child opens its own.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """What a child finds and cannot use."""

    def forked(self) -> None:
        """In the child, before anything else runs there."""
        ...


_watched: WeakSet[Inherited] = WeakSet()
_kept: list[object] = []


def watch(inherited: Inherited) -> None:
    """Have `forked` called in every child."""
    _watched.add(inherited)


def keep(*objects: object) -> None:
    """In a child: never let go of these, because closing them is not its business."""
    _kept.extend(objects)


def _tell_all() -> None:
    for inherited in list(_watched):
        inherited.forked()


os.register_at_fork(after_in_child=_tell_all)
