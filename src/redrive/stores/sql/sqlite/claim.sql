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

-- name: next_suspect
select m.seq, m.lane, m.due_at from messages m indexed by suspect cross join lanes l on l.lane = m.lane
where m.queue = ?1 and m.state = 'waiting' and m.crashes > 0
  and (l.free_at <= ?2 or l.window_began_at > ?2)
  and (l.state = 'running' and (l.cap is null or l.in_flight < l.cap)
    or l.probe_at <= ?2 and l.in_flight < 1 and l.waiting_main + l.waiting_bulk + l.waiting_redrive = 0)
order by m.due_at limit 1

-- A message as `ClaimedRow` reads it.
-- part: claimed
seq, id, lane, enqueued_at, ttl_s, first_track, dedupe, due_at, expires_at, attempts, crashes,
  generation, operation, lapse, parent

-- The rows come back in no order of their own.
-- name: take
update messages set state = 'claimed', attempts = attempts + 1, lease = ?2
where seq in (select value from json_each(?1))
returning {claimed}

-- Taken over twice, an expired message is still an expired one: no attempt was counted for it.
-- name: take_lost
update messages set lease = ?2, lapse = coalesce(lapse, 'lost') where seq = ?1
returning {claimed}

-- name: take_expired
update messages set state = 'claimed', lease = ?2, lapse = 'expired' where seq = ?1
returning {claimed}

-- Headers as a blob: text that is not UTF-8 would spoil the whole read.
-- name: bodies
select b.seq, cast(b.headers as blob), b.body from json_each(?) j cross join bodies b on b.seq = j.value

-- name: add_lease
insert into leases (token, queue, until_at, held, seqs, probes, boot, ends_ms) values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: lease
select l.lease, l.until_at, l.seqs, l.probes, q.name from leases l join queues q using (queue) where token = ?

-- What a lease still holds, in hand-out order: the answer to a repeated token.
-- name: held
select {claimed} from (select key, value from json_each(?1)) cross join messages on seq = value
where lease = ?2 and state = 'claimed' order by key

-- name: tenant
select tenant from lanes where lane = ?
