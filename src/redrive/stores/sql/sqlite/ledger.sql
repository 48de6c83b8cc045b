-- Single messages: reading their whole life.

-- As `AccountRow` reads it; headers as a blob, because text that is not UTF-8 would spoil the whole read.
-- part: account
m.seq, m.id, q.name, l.tenant, m.enqueued_at, m.ttl_s, m.first_track, m.dedupe, m.state, m.due_at,
  m.expires_at, m.attempts, m.crashes, m.generation, m.operation, cast(b.headers as blob), b.body, s.until_at, m.reason,
  m.died_at, m.fingerprint, m.finished_at, m.move, m.actor, m.parent, m.first_died_at

-- part: beside
join lanes l using (lane) left join bodies b using (seq) left join leases s on s.lease = m.lease

-- name: message
select {account}
from messages m join queues q using (queue) {beside}
where m.id = ?

-- name: accounts
select {account}
from queues q cross join json_each(?2) j cross join messages m on m.id = j.value and m.queue = q.queue
  {beside}
where q.name = ?1 order by j.key

-- name: family
select {account}
from messages m indexed by family join queues q using (queue) {beside}
where m.parent = ? order by m.seq

-- name: letters
select {account}
from messages m indexed by dead_of_all join queues q using (queue) {beside}
where m.state = 'dead' and (m.died_at, m.seq) > (?, ?)
order by m.died_at, m.seq limit ?

-- name: letters_of_queue
select {account}
from queues q cross join messages m indexed by dead_of_queue on m.queue = q.queue {beside}
where m.state = 'dead' and (m.died_at, m.seq) > (?, ?) and q.name = ?4
order by m.died_at, m.seq limit ?3
