-- Deleting a queue in which nothing is open: a page of its finished records at a time, then its keys, then the rest.

-- name: standing
select coalesce(sum(waiting_main + waiting_bulk + waiting_redrive + suspects), 0), coalesce(sum(in_flight), 0),
  coalesce(sum(dead), 0)
from lanes where queue = ?

-- name: last_ended
select max(finished_at) from (
  select max(finished_at) as finished_at from messages indexed by ended
  where queue = ?1 and state = 'done' and finished_at is not null
  union all
  select max(finished_at) from messages indexed by ended
  where queue = ?1 and state = 'removed' and finished_at is not null
)

-- name: ended
select seq from messages indexed by ended
where queue = ?1 and state in ('done', 'removed') and finished_at is not null limit ?2

-- name: remove_keys
delete from dedupe where (lane, key) in
  (select d.lane, d.key from lanes l cross join dedupe d on d.lane = l.lane where l.queue = ?1 limit ?2)

-- name: remove_leases
delete from leases where queue = ?

-- name: remove_lanes
delete from lanes where queue = ?

-- name: remove_queue
delete from queues where queue = ?
