"""Ids: what they look like, and that no two processes make the same one."""

from __future__ import annotations

import os
import time
import uuid

from redrive.engine.ids import new_id


def test_an_id_is_a_uuid_of_version_7_of_this_millisecond() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid.UUID(new_id()) for _ in range(2_000)]
    after = time.time_ns() // 1_000_000
    assert {(one.version, one.variant) for one in made} == {(7, uuid.RFC_4122)}
    assert all(before <= one.int >> 80 <= after for one in made)
    assert len({str(one)[14:] for one in made}) == len(made)


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    new_id()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writes, " ".join(_random_parts()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    with os.fdopen(reads) as told:
        theirs = set(told.read().split())
    assert len(theirs) == 20
    assert theirs.isdisjoint(_random_parts())


def _random_parts() -> list[str]:
    return [new_id()[15:] for _ in range(20)]
