-- Pages of messages by phase. Each reads along one index, from behind a place, and never the bodies. Every row has the
-- columns that `messages.py` reads, in the same order.

-- Tenants in which something waits, by name; one of them where it is named.
-- name: waiting_lanes
select lane, tenant from lanes
where queue = ?1 and tenant >= ?2 and (?3 is null or tenant = ?3)
  and waiting_main + waiting_bulk + waiting_redrive > 0
order by tenant limit ?4

-- name: waiting
select m.seq, m.id, l.tenant, m.enqueued_at, m.due_at, m.attempts, m.generation, null, null, null, null
from messages m indexed by due join lanes l using (lane)
where m.lane = ?1 and m.track = ?2 and m.state = 'waiting' and m.crashes = 0 and m.due_at between ?3 and ?4
  and (m.due_at, m.seq) > (?5, ?6)
order by m.due_at, m.seq limit ?7

-- Suspects have no index by lane: they are few.
-- name: waiting_suspects
select m.seq, m.id, l.tenant, m.enqueued_at, m.due_at, m.attempts, m.generation, null, null, null, null
from messages m indexed by suspect join lanes l using (lane)
where m.queue = ?1 and (?2 is null or l.tenant = ?2) and m.state = 'waiting' and m.crashes > 0
  and m.due_at between ?3 and ?4 and (m.due_at, m.seq) > (?5, ?6)
order by m.due_at, m.seq limit ?7

-- By lease, because a lease keeps its number when it is extended.
-- name: running
select m.seq, m.id, l.tenant, m.enqueued_at, m.due_at, m.attempts, m.generation, s.until_at, null, null, null, s.lease
from leases s indexed by lease_end cross join json_each(s.seqs) j cross join messages m on m.seq = j.value
  join lanes l on l.lane = m.lane
where s.queue = ?1 and m.lease = s.lease and m.state = 'claimed' and (?2 is null or l.tenant = ?2)
  and (s.lease, m.seq) > (?3, ?4)
order by s.lease, m.seq limit ?5

-- What is finished, as places in the index alone.
-- name: ended_places
select finished_at, lane, seq from messages indexed by ended
where queue = ?1 and state = ?2 and finished_at is not null and (finished_at, lane, seq) < (?3, ?4, ?5)
order by finished_at desc, lane desc, seq desc limit ?6

-- name: ended
select m.seq, m.id, l.tenant, m.enqueued_at, m.due_at, m.attempts, m.generation, null, m.finished_at, m.move, m.actor
from json_each(?1) j cross join messages m on m.seq = j.value join lanes l on l.lane = m.lane
order by j.key
