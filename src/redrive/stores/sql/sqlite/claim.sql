-- Claim: peek reads without writing, so that an idle poll costs nothing; the rest is one transaction. A message
-- changes state in place, with attempt + 1 and its lease in the same statement.

-- The suspect must be of a lane that may run now, or of a held one that has nothing else to probe with. A window that
-- began later than now is of a clock that was set back: it counts for nothing.
-- name: peek
select state,
  (select turn from lanes indexed by ring where queue = q.queue and turn is not null order by turn limit 1),
  (select wake_at from lanes indexed by timer where queue = q.queue and wake_at is not null
    order by wake_at limit 1),
  (select m.due_at from messages m indexed by suspect cross join lanes l on l.lane = m.lane
    where m.queue = q.queue and m.state = 'waiting' and m.crashes > 0
      and (l.free_at <= ?2 or l.window_began_at > ?2)
      and (l.state = 'running' and (l.cap is null or l.in_flight < l.cap)
        or l.probe_at <= ?2 and l.in_flight < 1 and l.waiting_main + l.waiting_bulk + l.waiting_redrive = 0)
    order by m.due_at limit 1)
from queues q where name = ?1

-- name: ready
select due_at, seq, size, track, lane from messages indexed by due
where lane = ? and track = ? and state = 'waiting' and crashes = 0 and due_at <= ? and (due_at, seq) > (?, ?)
order by due_at, seq limit ?

-- The first page of many lanes: a row a lane, with its messages as JSON, all read from the index.
-- name: ready_ahead
select l.value, (
  select json_group_array(json_array(due_at, seq, size, track, lane)) from (
    select due_at, seq, size, track, lane from messages indexed by due
    where lane = l.value and track = ?2 and state = 'waiting' and crashes = 0 and due_at <= ?3
    order by due_at, seq limit ?4))
from carray(?1) l

-- name: next_suspect
select m.seq, m.lane, m.due_at from messages m indexed by suspect cross join lanes l on l.lane = m.lane
where m.queue = ?1 and m.state = 'waiting' and m.crashes > 0
  and (l.free_at <= ?2 or l.window_began_at > ?2)
  and (l.state = 'running' and (l.cap is null or l.in_flight < l.cap)
    or l.probe_at <= ?2 and l.in_flight < 1 and l.waiting_main + l.waiting_bulk + l.waiting_redrive = 0)
order by m.due_at limit 1

-- A message by its name, of a generation or of any.
-- name: waiting
select seq, lane, track, crashes from messages
where id = ?1 and queue = ?2 and state = 'waiting' and generation = coalesce(?3, generation)

-- name: take
update messages set state = 'claimed', attempts = attempts + 1, lease = ?2
where seq in (select value from carray(?1))

-- Taken over twice, an expired message is still an expired one: no attempt was counted for it.
-- name: take_lost
update messages set lease = ?2, lapse = coalesce(lapse, 'lost') where seq in (select value from carray(?1))

-- name: take_expired
update messages set state = 'claimed', lease = ?2, lapse = 'expired' where seq in (select value from carray(?1))

-- What a lease holds, in the order of the array: the answer to a claim, and to a repeated token. Headers as a blob:
-- text that is not UTF-8 would spoil the whole read.
-- name: held
select m.seq, m.id, l.tenant, m.enqueued_at, m.ttl_s, m.first_track, m.dedupe, m.due_at, m.expires_at, m.attempts,
  m.crashes, m.generation, m.operation, m.lapse, m.parent, cast(b.headers as blob), b.body
from carray(?1) j cross join messages m on m.seq = j.value cross join lanes l on l.lane = m.lane
  left join bodies b on b.seq = m.seq
where m.lease = ?2 and m.state = 'claimed'

-- name: add_lease
insert into leases (token, queue, until_at, held, seqs, probes, boot, ends_ms) values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: lease
select l.lease, l.until_at, l.seqs, l.probes, q.name from leases l join queues q using (queue) where token = ?
