"""A worker process for the tests: it dies at once when it is handed a message that says so.

Arguments: the settings as JSON, the file that it writes the numbers it has handled to, one a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from redrive import Redrive
from redrive.core.message import Delivery
from redrive.wiring import load


def main() -> None:
    given, output = json.loads(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    app = Redrive(settings=load(given, environ={}))

    @app.handler("q.one", concurrency=5)
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        await asyncio.sleep(0.01)
        if payload.get("kills"):
            os._exit(9)
        os.write(output, f"{payload['n']}\n".encode())

    asyncio.run(app.run())


if __name__ == "__main__":
    main()
