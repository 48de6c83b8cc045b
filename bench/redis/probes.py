"""Every probe of a run on Redis, in order, and the entry of the process in which one measures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench import processes, waking
from bench.load import Conditions, Figures, answer
from bench.redis import claims, idle, peer_probes, room, throughput
from bench.redis.peers import PEERS

MODULE = "bench.redis.probes"
BULLMQ = "bullmq"

Measure = Callable[[Conditions], Figures]


@dataclass(frozen=True, slots=True)
class Probe:
    """One measurement in a process of its own; `repeated` in every round, otherwise only in the first.

    `peer` names the peer that has to be there; a `slow` one is left out of a quick run.
    """

    name: str
    measure: Measure
    peer: str | None = None
    repeated: bool = True
    slow: bool = False


PROBES = (
    Probe("throughput", throughput.measure),
    Probe("bullmq", peer_probes.measure_bullmq, BULLMQ),
    Probe("uvloop", throughput.measure_on_uvloop),
    Probe("retries", throughput.measure_beside_retries),
    Probe("processes", processes.measure),
    Probe("submit-singly", throughput.measure_singly),
    Probe("bullmq-forgetting", peer_probes.measure_bullmq_forgetting, BULLMQ, slow=True),
    *(
        Probe(peer.name, partial(peer_probes.measure_peer, peer.name), peer.name, repeated=peer.repeated)
        for peer in PEERS
    ),
    Probe("light-load", waking.measure_light_load),
    Probe("bullmq-light-load", peer_probes.measure_bullmq_light, BULLMQ),
    Probe("tenants", claims.measure_tenants),
    Probe("idle", idle.measure),
    Probe("bytes", room.measure_bytes, repeated=False),
    Probe("bullmq-bytes", peer_probes.measure_bullmq_memory, BULLMQ, repeated=False),
    Probe("capacity", room.measure_capacity, repeated=False),
    Probe("depth", claims.measure_depth, repeated=False, slow=True),
)

if __name__ == "__main__":
    answer({probe.name: probe.measure for probe in PROBES}, sys.argv[1:])
