"""SIGTERM and SIGINT: the first asks for a graceful end, a second acts as it would without us."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signals(stop: Callable[[], None], *, wanted: bool = True) -> Iterator[None]:
    """Call `stop` on the first signal, while inside. Does nothing outside the main thread."""
    loop = asyncio.get_running_loop()
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT) if wanted and main else ()

    def forget() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def received() -> None:
        forget()
        stop()

    for number in numbers:
        loop.add_signal_handler(number, received)
    try:
        yield
    finally:
        forget()
