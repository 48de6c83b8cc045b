-- Queues and lanes as `status` and the pages read them: from the lanes, and from the indexes of what waits; never
-- from the messages themselves.

-- name: queues
select q.queue, q.name, q.state,
  coalesce(sum(l.waiting_main + l.waiting_bulk + l.waiting_redrive + l.suspects), 0),
  coalesce(sum(l.suspects), 0), coalesce(sum(l.in_flight), 0), coalesce(sum(l.done), 0), coalesce(sum(l.dead), 0)
from queues q left join lanes l using (queue) group by q.queue order by q.name

-- How many wait for a later instant, and how many of these were tried before.
-- name: later
with tracks (track) as (values ('main'), ('bulk'), ('redrive'))
select count(*), coalesce(sum(m.attempts > 0), 0)
from lanes l cross join tracks t cross join messages m indexed by due
  on m.lane = l.lane and m.track = t.track and m.state = 'waiting' and m.crashes = 0 and m.due_at > ?2
where l.queue = ?1 and l.waiting_main + l.waiting_bulk + l.waiting_redrive > 0

-- name: later_suspects
select count(*), coalesce(sum(attempts > 0), 0) from messages indexed by suspect
where queue = ?1 and state = 'waiting' and crashes > 0 and due_at > ?2

-- name: oldest
with tracks (track) as (values ('main'), ('bulk'), ('redrive')),
heads (due_at) as (
  select (select min(m.due_at) from messages m indexed by due
    where m.lane = l.lane and m.track = t.track and m.state = 'waiting' and m.crashes = 0)
  from lanes l cross join tracks t
  where l.queue = ?1 and l.waiting_main + l.waiting_bulk + l.waiting_redrive > 0
  union all
  select min(due_at) from messages indexed by suspect where queue = ?1 and state = 'waiting' and crashes > 0
)
select min(due_at) from heads

-- name: queue_names
select name from queues order by name
