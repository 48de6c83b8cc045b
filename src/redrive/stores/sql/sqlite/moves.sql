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

-- name: cancel
update messages set state = 'removed', move = ?3, actor = ?4, finished_at = ?5
where id = ?1 and queue = ?2 and state = 'waiting'
returning seq, id, lane, track, crashes, generation, dedupe, parent, open_children, operation

-- name: waiting_page
select id from messages indexed by expiry where queue = ? and state = 'waiting' order by expires_at limit ?

-- name: run_now
update messages set due_at = min(due_at, ?3) where id = ?1 and queue = ?2 and state = 'waiting'
returning id, lane, due_at, crashes

-- name: free_key
delete from dedupe where lane = ? and key = ? and id = ?
