-- What hangs on a message: families, failures, the index of letters.

-- A parent's body and record stay while it has open children, whatever its own state is. Each statement names
-- parents by id; the counts change in the transaction that adds, finishes or removes the children.

-- Those of a queue that can have children: a finished one that has none left has lost its body.
-- name: parents
select m.id, length(b.body) from json_each(?2) j cross join messages m on m.id = j.value join bodies b using (seq)
where m.queue = ?1
  and (m.open_children > 0 or not (m.state = 'done' or coalesce(m.move not in ('discard', 'replace'), false)))

-- name: open_children
update messages set open_children = open_children + ?2 where id = ?1

-- What comes back is whether its body is still needed: by open children, or because it is not finished itself.
-- name: close_children
update messages set open_children = max(0, open_children - ?2) where id = ?1
returning seq, open_children > 0 or not (state = 'done' or coalesce(move not in ('discard', 'replace'), false))

-- name: parent_bodies
select m.id, b.body from json_each(?) j cross join messages m on m.id = j.value join bodies b using (seq)

-- Failures of a message in order, over all generations; equal tracebacks are stored once and counted.

-- name: add_failure
insert into failures (seq, number, at, attempt, kind, reason, code, scope, fingerprint, traceback, duration_ms, delay_ms, delay_asked)
values (?1, (select coalesce(max(number), 0) + 1 from failures where seq = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)

-- name: add_traceback
insert into tracebacks (hash, text, uses) values (?, ?, 1)
on conflict (hash) do update set uses = uses + 1
returning traceback

-- name: let_go_tracebacks
update tracebacks
set uses = uses - (select count(*) from failures f where f.seq = ?1 and f.traceback = tracebacks.traceback)
where traceback in (select traceback from failures where seq = ?1 and traceback is not null)

-- name: remove_unused_tracebacks
delete from tracebacks where uses <= 0 and traceback in (select traceback from failures where seq = ?)

-- name: remove_failures
delete from failures where seq = ?

-- name: failures
select f.at, f.attempt, f.kind, f.reason, f.code, f.scope, f.fingerprint, t.text, f.duration_ms, f.delay_ms, f.delay_asked
from failures f left join tracebacks t using (traceback) where f.seq = ? order by f.number

-- name: redrives
select at, generation, actor, operation, result from redrives where seq = ? order by generation

-- The office's index of dead letters: written in the same transaction as the move itself, and only for messages that
-- die or leave the dead.

-- After the failures are written. Replacing, because an index must never stand in the way of a move.
-- name: add_letters
insert or replace into letters
select m.id, q.name, l.tenant, m.reason, f.kind, f.code, coalesce(f.reason, m.reason), coalesce(m.fingerprint, ''),
  (select count(*) from failures c where c.seq = m.seq and c.kind in ('temporary', 'permanent', 'uncertain')
    and c.at >= coalesce((select r.at from redrives r where r.seq = m.seq order by r.generation desc limit 1), 0)),
  (select count(*) from redrives r where r.seq = m.seq), m.generation, m.enqueued_at, m.died_at, m.ttl_s,
  m.first_died_at
from json_each(?) j cross join messages m on m.seq = j.value join queues q using (queue) join lanes l using (lane)
  left join failures f on f.seq = m.seq and f.number = (select max(number) from failures where seq = m.seq)

-- name: remove_letter
delete from letters where id = ?
