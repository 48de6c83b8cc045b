-- What happened, added up over all processes: in all, and by the minute.

-- name: last_number
select number from totals_from where source = ?

-- name: note_number
insert into totals_from (source, number, at) values (?, ?, ?)
on conflict (source) do update set number = excluded.number, at = excluded.at

-- name: given
select label from total_labels where kind = ?

-- name: give
insert into total_labels (kind, label) values (?, ?)

-- name: add
insert into totals (name, label, part, count) values (?, ?, ?, ?)
on conflict (name, label, part) do update set count = count + excluded.count

-- name: add_minute
insert into minutes (queue, at, accepted, done, retried, dead, released) values (?, ?, ?, ?, ?, ?, ?)
on conflict (queue, at) do update set accepted = accepted + excluded.accepted, done = done + excluded.done,
  retried = retried + excluded.retried, dead = dead + excluded.dead, released = released + excluded.released

-- name: totals
select name, label, part, count from totals

-- name: minutes
select at, queue, accepted, done, retried, dead, released from minutes where queue = ? and at >= ? order by at

-- name: minutes_of_all
select at, queue, accepted, done, retried, dead, released from minutes indexed by minute_age
where at >= ? order by at, queue

-- name: remove_minutes
delete from minutes where (queue, at) in
  (select queue, at from minutes indexed by minute_age where at < ? order by at limit ?)

-- name: remove_sources
delete from totals_from where at < ?

-- name: forget_total
delete from totals where name = ? and label = ?

-- name: forget_minutes
delete from minutes where queue = ?

-- name: take_back
delete from total_labels where kind = ? and label = ?

-- name: died_between
select count(*) from queues q cross join messages m indexed by dead_of_queue on m.queue = q.queue
where q.name = ? and m.state = 'dead' and m.died_at > ? and m.died_at <= ?
