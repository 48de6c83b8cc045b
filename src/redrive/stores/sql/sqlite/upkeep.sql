-- Reclaim and cleanup, in pages. A lease that still runs is never touched; nothing dead is ever removed.

-- What reclaim would find, without writing.
-- name: overdue
select exists (select 1 from leases l join queues q using (queue)
    where q.name = ?1 and case when l.boot = ?3 then l.ends_ms <= ?4 else l.until_at <= ?2 end)
  or exists (select 1 from queues q cross join messages m indexed by expiry on m.queue = q.queue
    where q.name = ?1 and m.state = 'waiting' and m.expires_at <= ?2)

-- name: ended_leases
select lease, seqs from leases indexed by lease_end
where queue = ?1 and case when boot = ?3 then ends_ms <= ?4 else until_at <= ?2 end order by until_at limit ?5

-- name: still_held
select m.seq from json_each(?1) j cross join messages m on m.seq = j.value
where m.lease = ?2 and m.state = 'claimed' order by j.key limit ?3

-- name: expired
select seq, lane, track, crashes from messages indexed by expiry
where queue = ? and state = 'waiting' and expires_at <= ? order by expires_at limit ?

-- A parent with open children is not in the index. A child stays while its parent is not settled: it may fan out
-- again, and what it fans out must be known then.
-- name: finished_before
select seq from messages m indexed by finished
where (state = 'done' or move not in ('discard', 'replace')) and open_children = 0 and finished_at < ?
  and (parent is null or not exists (select 1 from messages p where p.id = m.parent and p.finished_at is null))
order by finished_at limit ?

-- The newest record that is one too many; those up to it may go.
-- name: first_beyond
select finished_at, seq from messages indexed by finished
where (state = 'done' or move not in ('discard', 'replace')) and open_children = 0
order by finished_at desc, seq desc limit 1 offset ?

-- name: finished_beyond
select seq from messages m indexed by finished
where (state = 'done' or move not in ('discard', 'replace')) and open_children = 0 and (finished_at, seq) <= (?, ?)
  and finished_at < ?
  and (parent is null or not exists (select 1 from messages p where p.id = m.parent and p.finished_at is null))
order by finished_at, seq limit ?

-- What people discarded or replaced, which still has its content; a child among them is still open.
-- name: discarded_before
select seq, parent from messages m indexed by discarded
where move in ('discard', 'replace') and open_children = 0 and finished_at < ?
  and (parent is null or not exists (select 1 from messages p where p.id = m.parent and p.finished_at is null))
order by finished_at limit ?

-- name: remove_message
delete from messages where seq = ?

-- name: remove_keys
delete from dedupe where (lane, key) in
  (select lane, key from dedupe indexed by dedupe_end where expires_at <= ? order by expires_at limit ?)

-- name: remove_records
delete from records where (kind, id) in
  (select kind, id from records indexed by record_end where expires_at <= ? order by expires_at limit ?)
