"""One frozen, validated Settings: code < redrive.toml < environment REDRIVE_* < flags.

Every value keeps its origin, and every error names the key and that origin. Defaults live in `core`;
what follows from a store's URL is said by wiring, whose `load` is for everybody else. Nothing here creates
a file or a folder. Known weakness: a queue's own section has no environment variables, because a queue's
name may hold what a variable's may not.
"""

from redrive.config.keys import SENTRY_VARIABLE, LogFormat, LogLevel, LogSettings, mask_url
from redrive.config.settings import Settings, StoreDefaults
from redrive.config.sources import load, warn_overruled

__all__ = [
    "SENTRY_VARIABLE",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "Settings",
    "StoreDefaults",
    "load",
    "mask_url",
    "warn_overruled",
]
