-- Settle and extend: every change is guarded by the lease. What a lease holds is read first; what it does not hold was
-- refused. Release and Hold give back the attempt that their claim counted; taking over an expired message counted none.

-- name: lease_of_token
select lease from leases where token = ?

-- As `SettledRow` reads it.
-- name: held
select seq, ?2, id, lane, queue, track, generation, crashes, operation, attempts, dedupe, parent, open_children,
  open_children > 0 or exists (select 1 from messages c indexed by family where c.parent = m.id)
from carray(?1) j cross join messages m on m.seq = j.value where m.lease = ?2

-- All that one lease completes, by one statement.
-- name: complete
update messages set state = 'done', lease = null, lapse = null, finished_at = ?3
where seq in (select value from carray(?1)) and lease = ?2

-- name: retry
update messages set state = 'waiting', lease = null, lapse = null, due_at = ?3, crashes = 0
where seq = ?1 and lease = ?2

-- name: release
update messages set state = 'waiting', due_at = ?3, lease = null, lapse = null, crashes = crashes + ?4,
  attempts = max(0, attempts - (lapse is not 'expired'))
where seq = ?1 and lease = ?2

-- name: bury
update messages set state = 'dead', lease = null, lapse = null, died_at = ?3, reason = ?4, fingerprint = ?5,
  first_died_at = coalesce(first_died_at, ?3)
where seq = ?1 and lease = ?2

-- name: remove_bodies
delete from bodies where seq in (select value from carray(?)) and headers is null

-- Headers stay as long as the record does.
-- name: empty_body
update bodies set body = x'' where seq = ?

-- name: remove_content
delete from bodies where seq = ?

-- name: remove_redrives
delete from redrives where seq = ?

-- name: end_key
update dedupe set expires_at = ?4 where lane = ?1 and key = ?2 and id = ?3

-- name: let_go
update leases set held = held - ?2 where lease = ?1

-- name: remove_empty_lease
delete from leases where lease = ? and held <= 0

-- name: redrive_result
update redrives set result = ?3 where seq = ?1 and generation = ?2

-- name: extend
update leases set until_at = ?2, boot = ?3, ends_ms = ?4 where token = ?1 returning token
