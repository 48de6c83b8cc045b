"""One frozen, validated Settings: code < redrive.toml < environment REDRIVE_* < flags.

Every value keeps its origin, and every error names the key and that origin. Defaults live in `core`;
a store's URL is judged by wiring. Nothing here creates a file or a folder. Known weakness: a queue's
own section has no environment variables, because a queue's name may hold what a variable's may not.
"""

from redrive.config.keys import LogFormat, LogLevel, LogSettings, mask_url
from redrive.config.settings import Settings
from redrive.config.sources import load, store_file, tell_overruled

__all__ = [
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "Settings",
    "load",
    "mask_url",
    "store_file",
    "tell_overruled",
]
