"""What every probe carries: a 1 KB body, 20 tenants, batches of 100.

Standard library only: the peers' environment imports it too.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BODY_BYTES = 1_024
BATCH = 100
TENANTS = 20
PAYLOAD = {"text": "a" * (BODY_BYTES - len('{"text":""}'))}
BODY = json.dumps(PAYLOAD, separators=(",", ":")).encode()

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where a probe writes, what it shares with others of the run, and about how long it measures.

    `server` is the address of a Redis of the probe's own, where that is what is measured.
    """

    folder: Path
    shared: Path
    seconds: float
    server: str | None = None

    def store(self, name: str) -> str:
        """The address of an empty store: a file in the probe's folder, or a prefix on its server."""
        if self.server is None:
            return file_store(self.folder / f"{name}.db")
        return f"{self.server}?prefix={name}"


def file_store(file: Path) -> str:
    """The address of a SQLite store."""
    return f"sqlite:///{file}"


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not pass, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def answer(measures: Mapping[str, Callable[[Conditions], Figures]], arguments: Sequence[str]) -> None:
    """What a probe's process does: measure what it was asked for, and print the figures as JSON."""
    name, folder, shared, seconds, *server = arguments
    conditions = Conditions(Path(folder), Path(shared), float(seconds), *server)
    print(json.dumps(measures[name](conditions)))
