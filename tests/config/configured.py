"""Settings as a file, the environment and flags make them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from redrive.config import Settings
from redrive.wiring import load

QUEUE = '[retry]\nattempts = 7\njitter = 0.1\n[queues."q.mail:send"]\nattempts = 9\nrate = "5/s"\n'


def configured(
    folder: Path,
    toml: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    (folder / "redrive.toml").write_text(toml, "utf-8")
    return load(flags, environ=environ or {}, folder=folder)
