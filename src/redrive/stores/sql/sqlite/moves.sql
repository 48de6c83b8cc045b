-- What people do to single messages. Each statement names the state it moves from: an id in another state, or
-- of another queue, does not come back and is skipped (P29).

-- name: redrive
update messages set state = 'waiting', track = 'redrive', due_at = ?3, attempts = 0, crashes = 0,
  expires_at = ?3 + cast(round(ttl_s * 1000) as integer), generation = generation + 1, operation = ?4,
  died_at = null, reason = null, fingerprint = null
where id = ?1 and queue = ?2 and state = 'dead'
returning seq, id, lane, generation

-- name: add_redrive
insert into redrives (seq, generation, at, actor, operation, result) values (?, ?, ?, ?, ?, ?)

-- name: discard
update messages set state = 'removed', move = 'discard', actor = ?3, finished_at = ?4
where id = ?1 and queue = ?2 and state = 'dead'
returning seq, id, lane, dedupe

-- name: remove
update messages set state = 'removed', move = ?3, actor = ?4, finished_at = ?5
where id = ?1 and queue = ?2 and state = 'waiting'
returning seq, id, lane, track, crashes, generation, dedupe, parent, open_children

-- name: waiting_page
select id from messages indexed by expiry where queue = ? and state = 'waiting' order by expires_at limit ?

-- name: run_now
update messages set due_at = min(due_at, ?3) where id = ?1 and queue = ?2 and state = 'waiting'
returning id, lane, due_at, crashes

-- name: free_key
delete from dedupe where lane = ? and key = ? and id = ?

-- name: take_in
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation, size,
  enqueued_at, ttl_s, first_track, dedupe, operation, died_at, reason, fingerprint, parent)
values (?1, ?2, ?3, ?4, 'dead', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?5, ?14, ?15, ?16, ?17, ?18, ?19)

-- name: take_free_key
insert into dedupe (lane, key, id, hash) values (?, ?, ?, ?) on conflict do nothing
