"""Runs probes, each in a process of its own and in a folder of its own, and keeps what they answer.

Rounds go over all probes again and again, so that what is compared was measured minutes apart at most. A
probe that fails leaves no figure: its goals are then not shown, and the run says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.load import Figures
from bench.probes import OURS, Probe

_ROOT = Path(__file__).resolve().parent.parent
_PATIENCE_S = 300.0


@dataclass(slots=True)
class Results:
    """Every figure of every round, and the probes that failed."""

    rounds: dict[str, list[float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def add(self, figures: Figures) -> None:
        for name, value in figures.items():
            self.rounds.setdefault(name, []).append(value)


@dataclass(frozen=True, slots=True)
class Run:
    """How probes are run: where, how long each, and by which interpreter the peers' are."""

    folder: Path
    seconds: float
    peers: Path | None

    def run(self, probes: Sequence[Probe], rounds: int) -> Results:
        """All probes, round by round."""
        results = Results()
        for number in range(rounds):
            for probe in probes:
                if probe.repeated or number == 0:
                    _tell(f"round {number + 1} of {rounds}: {probe.name}")
                    self._measure(probe, results)
        return results

    def _measure(self, probe: Probe, results: Results) -> None:
        own, shared = self.folder / probe.name, self.folder / "shared"
        own.mkdir()
        shared.mkdir(exist_ok=True)
        python = sys.executable if probe.module == OURS else str(self.peers)
        command = [python, "-m", probe.module, probe.name, str(own), str(shared), str(self.seconds)]
        began_s = time.monotonic()
        try:
            results.add(ask(command))
        except (subprocess.SubprocessError, ValueError) as error:
            results.failed.append(probe.name)
            _tell(f"{probe.name} failed: {why(error)}")
        else:
            _tell(f"{probe.name} took {time.monotonic() - began_s:.0f} s")
        finally:
            shutil.rmtree(own)


def ask(command: Sequence[str], patience_s: float = _PATIENCE_S) -> Figures:
    """The figures that a probe's process answers with."""
    done = subprocess.run(
        command,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=True,
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def why(error: Exception) -> str:
    """The last line of what a probe's process said, or the error."""
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return (said.strip().splitlines() or [str(error)])[-1]


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
