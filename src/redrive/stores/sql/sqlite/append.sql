-- Append: everything is read and checked before the first insert, so a group is all or nothing.

-- name: known
select m.id, m.state, m.queue, l.tenant, m.first_track, m.dedupe, m.parent, m.content
from messages m join lanes l using (lane) where m.id in (select value from json_each(?))

-- name: last_seq
select coalesce(max(seq), 0) from messages

-- Each of the pairs is a tenant and a key. A holder whose record is gone was done: whatever else frees its key.
-- name: holders
select l.tenant, d.key, d.id, d.hash, coalesce(m.state, 'done')
from json_each(?2) j cross join lanes l on l.queue = ?1 and l.tenant = j.value ->> 0
  cross join dedupe d on d.lane = l.lane and d.key = j.value ->> 1 left join messages m on m.id = d.id
where d.expires_at is null or d.expires_at > ?3

-- name: add_message
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation, size,
  enqueued_at, ttl_s, first_track, dedupe, parent, content)
values (?, ?, ?, ?, 'waiting', ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?, ?)

-- name: add_body
insert into bodies (seq, headers, body) values (?, ?, ?)

-- name: take_key
insert into dedupe (lane, key, id, hash) values (?, ?, ?, ?)
on conflict do update set id = excluded.id, hash = excluded.hash, expires_at = null
