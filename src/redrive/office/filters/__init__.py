"""The filter language: one line of text that says which dead letters are meant (docs/filters.md).

`parse` reads it, `str` writes it back, `compile_filter` makes it an SQL condition with bound parameters. The
API, the CLI and the pages use these three.
"""

from redrive.office.filters.conditions import Condition, compile_filter
from redrive.office.filters.mistakes import FilterError
from redrive.office.filters.names import FIELDS
from redrive.office.filters.parser import parse
from redrive.office.filters.terms import Filter

__all__ = ["FIELDS", "Condition", "Filter", "FilterError", "compile_filter", "parse"]
