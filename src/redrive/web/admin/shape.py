"""The first look in trouble: letters by tenant and age, in doubling buckets."""

from __future__ import annotations

from starlette.responses import Response

from redrive.office.filters.guessing import unsearched
from redrive.office.shape import shape
from redrive.web.access import Call, Operation
from redrive.web.admin.asking import FilterText, Limit, Query, asked
from redrive.web.admin.description import READ, Route
from redrive.web.admin.office import Office
from redrive.web.answers import respond
from redrive.web.problem_types import BAD_QUERY


class AskShape(Query, frozen=True):
    """Of which letters, and how many tenants at most."""

    filter: FilterText = ""
    limit: Limit = 50


_SHAPE = Route(
    method="GET",
    path="/shape",
    name="showShape",
    summary="Letters by tenant and age",
    allowed=READ,
    query=AskShape,
    document="ShapeDocument",
    problems=(BAD_QUERY,),
)


class Shapes:
    """The route."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def operations(self) -> list[Operation]:
        return [_SHAPE.operation(self.show)]

    async def show(self, call: Call) -> Response:
        query, index = asked(call, AskShape), self._office.index
        wanted = self._office.filter(call, query.filter)
        found = await shape(index, wanted, scope=call.credential.tenant, limit=query.limit)
        document = {
            "ages": found.labels,
            "total": found.total,
            "counts": found.counts,
            "tenants": [
                {"companyId": row.tenant, "total": row.total, "counts": row.counts} for row in found.rows
            ],
            "others": found.others,
            "behind": index.freshness.behind,
            "notice": unsearched(wanted),
        }
        return respond(200, document)
