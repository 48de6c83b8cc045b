-- Letters by filter, on `letters` and `letter_bodies`. The office puts in from its own fixed pieces: {narrow} and
-- {deep} (compiled filters), {beyond} (> or <) and {order} (asc or desc), {letters} and {condition} (either the
-- narrow table, or `documents` and what is asked of them). Every value is bound.

-- The next letters of an order, from after (:after_at, :after_id).
-- name: find
select queue, id, generation, tenant, reason, died_at, enqueued_at, ttl_s, coalesce(code, ''), true
from letters
where (died_at, id) {beyond} (:after_at, :after_id) and {narrow}
order by died_at {order}, id {order} limit :size

-- The same, each with whether its payload or text is what was asked for. Of a payload the first MiB is looked at,
-- which is all of it unless it is a mail with attachments.
-- name: look
select queue, id, generation, tenant, reason, died_at, enqueued_at, ttl_s, coalesce(code, ''), {deep}
from (
  select l.*, (select cast(substr(b.body, 1, 1048576) as text) from letter_bodies b where b.id = l.id) as document
  from letters l
  where (died_at, id) {beyond} (:after_at, :after_id) and {narrow}
  order by died_at {order}, id {order} limit :size
)
order by died_at {order}, id {order}

-- Letters with their payloads, one at a time: the limit keeps SQLite from reading a payload once for each use.
-- name: documents
(
  select l.*, (select cast(substr(b.body, 1, 1048576) as text) from letter_bodies b where b.id = l.id) as document
  from letters l where {narrow} limit -1
)

-- name: count
select count(*) from {letters} where {condition}

-- name: count_reason
select count(*) from letters where reason = :reason

-- name: split
select tenant, reason, count(*), min(first_died_at), max(died_at) from {letters} where {condition} group by tenant, reason

-- The values of a {column} among the letters of {narrow}, the most frequent first.
-- name: values
select coalesce({column}, '') as value, count(*) as letters from letters where {narrow}
group by value order by letters desc, value limit :size

-- Codes and payloads, the newest letters first: the limit keeps payloads out of the sorting.
-- name: payloads
select coalesce(l.code, ''), (select b.body from letter_bodies b where b.id = l.id)
from (select id, code from {letters} where {condition} order by died_at desc, id desc limit -1) l
