-- Append: everything is read and checked before the first insert, so a group is all or nothing.

-- name: known
select m.id, m.state, m.queue, l.tenant, m.first_track, m.dedupe, m.parent, m.content
from messages m join lanes l using (lane) where m.id in (select value from json_each(?))

-- name: state_of
select state from messages where id = ?

-- name: last_seq
select coalesce(max(seq), 0) from messages

-- name: dedupe_holder
select id, hash from dedupe where lane = ? and key = ? and (expires_at is null or expires_at > ?)

-- name: add_message
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation, size,
  enqueued_at, ttl_s, first_track, dedupe, parent, content)
values (?1, ?2, ?3, ?4, 'waiting', ?5, ?6, ?7, 0, 0, 0, ?8, ?9, ?10, ?5, ?11, ?12, ?13)

-- name: add_body
insert into bodies (seq, headers, body) values (?, ?, ?)

-- name: take_key
insert into dedupe (lane, key, id, hash) values (?, ?, ?, ?)
on conflict do update set id = excluded.id, hash = excluded.hash, expires_at = null
