-- How old each tenant's dead letters are. {letters} and {condition} as in find.sql; every value is bound.

-- For each tenant: how many in all, and how many died before each bound (:edge_0 is the latest).
-- name: shape
select tenant, count(*) as total, sum(died_at <= :edge_0), sum(died_at <= :edge_1), sum(died_at <= :edge_2),
  sum(died_at <= :edge_3), sum(died_at <= :edge_4), sum(died_at <= :edge_5), sum(died_at <= :edge_6),
  sum(died_at <= :edge_7), sum(died_at <= :edge_8), sum(died_at <= :edge_9), sum(died_at <= :edge_10)
from {letters} where {condition}
group by tenant order by total desc, tenant
