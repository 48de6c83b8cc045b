-- Dead letters in groups. The office puts in {key} (a column, or the age's bucket), {letters} and {condition} (see
-- find.sql). Every value is bound.

-- The largest groups. id to failure are those of the newest letter: the row that max() found.
-- name: groups
select {key} as name, count(*) as total, count(distinct tenant), group_concat(distinct queue),
  max(died_at) as last_died_at, queue, id, tenant, reason, code, failure
from {letters} where {condition}
group by name order by total desc, last_died_at desc, name limit :size

-- How many of each group first died in each of :buckets equal parts of the time since :since_at, and before it (-1).
-- name: trends
select {key} as name,
  iif(first_died_at < :since_at, -1, min((first_died_at - :since_at) * :buckets / :span_ms, :buckets - 1)),
  count(*), min(first_died_at)
from {letters} where {condition}
group by 1, 2

-- How old: the number of bounds that a letter first died before, 0 for the youngest. As in shape.sql.
-- name: age
(first_died_at <= :edge_0) + (first_died_at <= :edge_1) + (first_died_at <= :edge_2) + (first_died_at <= :edge_3)
  + (first_died_at <= :edge_4) + (first_died_at <= :edge_5) + (first_died_at <= :edge_6) + (first_died_at <= :edge_7)
  + (first_died_at <= :edge_8) + (first_died_at <= :edge_9) + (first_died_at <= :edge_10)
