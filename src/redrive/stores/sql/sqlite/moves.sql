-- What people do to single messages. Each statement names the state it moves from: an id in another state, or
-- of another queue, does not come back and is skipped.

-- name: redrive
update messages set state = 'waiting', track = 'redrive', due_at = ?4, attempts = 0, crashes = 0,
  expires_at = ?4 + cast(round(ttl_s * 1000) as integer), generation = generation + 1, operation = ?5,
  died_at = null, reason = null, fingerprint = null
where id = ?1 and (?2 is null or generation = ?2) and queue = ?3 and state = 'dead'
returning seq, id, lane, generation

-- name: add_redrive
insert into redrives (seq, generation, at, actor, operation, result) values (?, ?, ?, ?, ?, ?)

-- name: remove
update messages set state = 'removed', move = ?4, actor = ?5, finished_at = ?6, operation = coalesce(?7, operation)
where id = ?1 and (?2 is null or generation = ?2) and queue = ?3 and state = 'dead'
returning seq, id, lane, dedupe, parent, open_children

-- The operation of a dead letter is that of its last re-drive.
-- name: undiscard
update messages set state = 'dead', move = null, actor = null, finished_at = null, operation =
  (select r.operation from redrives r where r.seq = messages.seq order by r.generation desc limit 1)
where id = ?1 and (?2 is null or generation = ?2) and queue = ?3 and state = 'removed' and move = 'discard'
returning seq, id, lane

-- name: cancel
update messages set state = 'removed', move = ?3, actor = ?4, finished_at = ?5
where id = ?1 and queue = ?2 and state = 'waiting'
returning seq, id, lane, track, crashes, generation, dedupe, parent, open_children, operation

-- name: waiting_page
select id from messages indexed by expiry where queue = ? and state = 'waiting' order by expires_at limit ?

-- By the indexes of what is due and of suspects: those by expiry are of all tenants.
-- name: waiting_page_of_tenant
with own (lane) as (select lane from lanes where queue = ?1 and tenant = ?2),
tracks (track) as (values ('main'), ('bulk'), ('redrive'))
select m.id from own cross join tracks t cross join messages m indexed by due
  on m.lane = own.lane and m.track = t.track and m.state = 'waiting' and m.crashes = 0
union all
select m.id from own cross join messages m indexed by suspect
  on m.queue = ?1 and m.lane = own.lane and m.state = 'waiting' and m.crashes > 0
limit ?3

-- name: run_now
update messages set due_at = min(due_at, ?3) where id = ?1 and queue = ?2 and state = 'waiting'
returning id, lane, due_at, crashes

-- name: free_key
delete from dedupe where lane = ? and key = ? and id = ?

-- Taking in dead letters: from elsewhere as new rows, from an archive as what they were.

-- What of a letter that comes in is known already; only an archived one, not of a later generation, is replaced.
-- name: known
select m.seq, m.move is 'archive' and q.name = ?2 and m.generation <= ?3
from messages m join queues q using (queue) where m.id = ?1

-- name: take_in
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation, size,
  enqueued_at, ttl_s, first_track, dedupe, operation, died_at, reason, fingerprint, parent, content,
  first_died_at)
values (?1, ?2, ?3, ?4, 'dead', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?5, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)

-- The number stays, and with it the place among siblings and the children that are counted here.
-- name: restore
update messages set lane = ?4, state = 'dead', track = ?5, due_at = ?6, expires_at = ?7, attempts = ?8, crashes = ?9,
  generation = ?10, size = ?11, enqueued_at = ?12, ttl_s = ?13, first_track = ?5, dedupe = ?14, operation = ?15,
  died_at = ?16, reason = ?17, fingerprint = ?18, parent = ?19, content = ?20, first_died_at = ?21,
  finished_at = null, move = null, actor = null
where seq = ?1 and id = ?2 and queue = ?3

-- An archived parent has kept its body while children needed it.
-- name: write_body
insert or replace into bodies (seq, headers, body) values (?, ?, ?)

-- An ended key counts as free.
-- name: take_free_key
insert into dedupe (lane, key, id, hash) values (?1, ?2, ?3, ?4)
on conflict do update set id = ?3, hash = ?4, expires_at = null where expires_at <= ?5

-- name: parent
select seq, queue from messages where id = ?

-- The record of a parent that is gone: as if it had been archived, so that its own letter may take its place.
-- name: add_parent
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation, size,
  enqueued_at, ttl_s, first_track, finished_at, move, actor)
values (?1, ?2, ?3, ?4, 'removed', ?5, ?6, ?6 + cast(round(?7 * 1000) as integer), 0, 0, 0, ?8, ?6, ?7, ?5, ?9,
  'archive', 'restore')

-- name: write_shared
insert into bodies (seq, body) values (?1, ?2) on conflict do update set body = ?2
