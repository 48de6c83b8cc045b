"""What admin routes answer with, as the OpenAPI document describes it.

The documents themselves are made by the office; a test holds every answer against these types.
"""

from redrive.web.admin.documents import control, groups, letters, operations

SCHEMAS = (*letters.SCHEMAS, *groups.SCHEMAS, *operations.SCHEMAS, *control.SCHEMAS)
