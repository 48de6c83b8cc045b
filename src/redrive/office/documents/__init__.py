"""What goes out as JSON, each document once: built here, described to OpenAPI from here, printed by the CLI.

Names are camelCase, times ISO 8601 with Z. What is shown of a letter passes a `Mask` on its way in here.
"""

from redrive.office.documents import (
    access,
    alerts,
    control,
    destinations,
    findings,
    groups,
    health,
    letters,
    messages,
    operations,
    overview,
)

SCHEMAS = (
    *letters.SCHEMAS,
    *messages.SCHEMAS,
    *groups.SCHEMAS,
    *destinations.SCHEMAS,
    *operations.SCHEMAS,
    *control.SCHEMAS,
    *access.SCHEMAS,
    *findings.SCHEMAS,
    *overview.SCHEMAS,
    *alerts.SCHEMAS,
    *health.SCHEMAS,
)
