"""Every probe of a run, in order, and the entry of the process in which one of ours measures.

The order matters: a probe stands beside the ones it is compared with, so that a neighbour's load on a shared
machine falls on both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bench import lanes, limits, processes, processing, size, submitting, waking
from bench.load import Conditions, Figures, answer

OURS = "bench.probes"
THEIRS = "bench.peer_queues"


class Need(StrEnum):
    """What has to be asked for, for a probe to run."""

    NOTHING = "nothing"
    PEERS = "peers"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class Probe:
    """One measurement in a process of its own; `repeated` in every round, otherwise only in the first."""

    name: str
    module: str = OURS
    need: Need = Need.NOTHING
    repeated: bool = True


PROBES = (
    Probe("append-limits"),
    Probe("submitting"),
    Probe("process-limit"),
    Probe("processing"),
    Probe("processing-beside-retries"),
    Probe("huey", THEIRS, Need.PEERS),
    Probe("persist-queue", THEIRS, Need.PEERS),
    Probe("litequeue", THEIRS, Need.PEERS),
    Probe("uvloop"),
    Probe("threads"),
    Probe("processes"),
    Probe("tenants"),
    Probe("retries"),
    Probe("fill", need=Need.LARGE, repeated=False),
    Probe("depth", need=Need.LARGE),
    Probe("same-process"),
    Probe("other-process"),
    Probe("light-load"),
    Probe("idle"),
    Probe("import", repeated=False),
    Probe("help", repeated=False),
    Probe("disk", repeated=False),
    Probe("memory", need=Need.LARGE, repeated=False),
)

_MEASURES: dict[str, Callable[[Conditions], Figures]] = {
    "append-limits": limits.measure_append,
    "process-limit": limits.measure_process,
    "submitting": submitting.measure,
    "processing": processing.measure,
    "processing-beside-retries": processing.measure_beside_retries,
    "uvloop": processing.measure_on_uvloop,
    "threads": processing.measure_threaded,
    "processes": processes.measure,
    "tenants": lanes.measure_tenants,
    "retries": lanes.measure_retries,
    "fill": lanes.fill_deep,
    "depth": lanes.measure_depth,
    "same-process": waking.measure_same_process,
    "other-process": waking.measure_other_process,
    "light-load": waking.measure_light_load,
    "idle": waking.measure_idle,
    "import": size.measure_import,
    "help": size.measure_help,
    "disk": size.measure_disk,
    "memory": size.measure_memory,
}

if __name__ == "__main__":
    answer(_MEASURES, sys.argv[1:])
