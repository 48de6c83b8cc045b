"""The process around a worker: the signals that end it, and its end when its event loop is stuck."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FAILED = 1


@contextmanager
def stop_on_signals(
    stop: Callable[[], None], *, again: Callable[[], None] | None = None, wanted: bool = True
) -> Iterator[None]:
    """Call `stop` on the first SIGTERM or SIGINT, while inside, and `again` on those that follow; without it,
    they act as they would without us.

    Does nothing outside the main thread.
    """
    loop = asyncio.get_running_loop()
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT) if wanted and main else ()

    def forget() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def listen(received: Callable[[], None]) -> None:
        for number in numbers:
            loop.add_signal_handler(number, received)

    def first() -> None:
        if again is None:
            forget()
        else:
            listen(again)
        stop()

    listen(first)
    try:
        yield
    finally:
        forget()


def end_when_stuck() -> None:
    """Called from the keeper's thread: a handler has blocked the event loop past every deadline.

    The loop will not run again, so a supervisor has to start the process afresh.
    """
    logging.getLogger("redrive").critical("a handler has blocked the event loop for too long: ending")
    os._exit(_FAILED)
