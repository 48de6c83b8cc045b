-- How old each tenant's dead letters are. {letters} and {condition} as in find.sql; every value is bound.

-- For each tenant: how many in all, and how many first died before each bound (:edge_0 is the latest).
-- name: shape
select tenant, count(*) as total, sum(first_died_at <= :edge_0), sum(first_died_at <= :edge_1),
  sum(first_died_at <= :edge_2), sum(first_died_at <= :edge_3), sum(first_died_at <= :edge_4),
  sum(first_died_at <= :edge_5), sum(first_died_at <= :edge_6), sum(first_died_at <= :edge_7),
  sum(first_died_at <= :edge_8), sum(first_died_at <= :edge_9), sum(first_died_at <= :edge_10)
from {letters} where {condition}
group by tenant order by total desc, tenant
