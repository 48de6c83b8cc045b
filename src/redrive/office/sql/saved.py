"""Questions worth keeping, by name. The first two are those of the runbook's first scenario, as written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SAVED: Mapping[str, str] = MappingProxyType(
    {
        "by-code": """
SELECT lastFailureCode, COUNT(*)
FROM dlq
GROUP BY lastFailureCode
ORDER BY COUNT(*) DESC;
""".strip(),
        "by-company": """
SELECT companyId, COUNT(*)
FROM dlq
GROUP BY companyId
ORDER BY COUNT(*) DESC
LIMIT 10;
""".strip(),
        "by-reason": """
SELECT queue, reason, kind, COUNT(*) AS letters, MIN(movedToDLQAt) AS first, MAX(movedToDLQAt) AS last
FROM dlq
GROUP BY queue, reason, kind
ORDER BY letters DESC;
""".strip(),
        "by-hour": """
SELECT substr(movedToDLQAt, 1, 13) AS hour, COUNT(*) AS letters, COUNT(DISTINCT companyId) AS companies
FROM dlq
GROUP BY hour
ORDER BY hour DESC
LIMIT 48;
""".strip(),
        "failed-again": """
SELECT fingerprint, lastFailureCode, MAX(lastFailureReason) AS example, COUNT(*) AS letters
FROM dlq
WHERE redriven > 0
GROUP BY fingerprint, lastFailureCode
ORDER BY letters DESC;
""".strip(),
        "oldest": """
SELECT jobId, companyId, queue, lastFailureCode, lastFailureReason, movedToDLQAt
FROM dlq
ORDER BY movedToDLQAt
LIMIT 20;
""".strip(),
    }
)
