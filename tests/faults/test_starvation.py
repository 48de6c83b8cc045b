"""What is beside a limit is counted: that there is no processor, and not that a process does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.starvation import Starvation

BUSY_S = 0.3
BUSY = f"""
import os, sys, time
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
print(flush=True)
sys.stdin.read()
while time.process_time() < {BUSY_S}: pass
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not count it")
def test_two_that_share_a_processor_wait_for_each_other() -> None:
    waits, goes = os.pipe()
    children = [
        subprocess.Popen([sys.executable, "-c", BUSY], stdin=waits, stdout=subprocess.PIPE) for _ in range(2)
    ]
    with Starvation(lambda: [child.pid for child in children]) as starvation:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        began_s = time.monotonic()
        os.close(goes)
        for child in children:
            child.communicate()
        ended_s = time.monotonic()
        assert starvation.within(began_s, ended_s) > BUSY_S / 2
        assert starvation.beside(began_s, ended_s) < ended_s - began_s - BUSY_S / 2
    os.close(waits)


def test_where_nothing_is_counted_a_limit_is_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.starvation._waited_ns", lambda thread, known: known)
    with Starvation(lambda: [os.getpid()]) as starvation:
        now_s = time.monotonic()
        assert starvation.within(now_s - 5, now_s) == 0
        assert starvation.beside(now_s - 5, now_s) == pytest.approx(5)
