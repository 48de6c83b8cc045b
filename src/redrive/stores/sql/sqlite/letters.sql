-- The office's index of dead letters: written in the same step as the move itself, and only for messages that die
-- or leave the dead.

-- After the failures are written. Replacing, because an index must never stand in the way of a move.
-- name: add_letters
insert or replace into letters
select m.id, q.name, l.tenant, m.reason, f.kind, f.code, coalesce(f.reason, m.reason), coalesce(m.fingerprint, ''),
  (select count(*) from failures c where c.seq = m.seq and c.kind in ('temporary', 'permanent', 'uncertain')
    and c.at >= coalesce((select r.at from redrives r where r.seq = m.seq order by r.generation desc limit 1), 0)),
  (select count(*) from redrives r where r.seq = m.seq), m.generation, m.enqueued_at, m.died_at, m.ttl_s
from json_each(?) j cross join messages m on m.seq = j.value join queues q using (queue) join lanes l using (lane)
  left join failures f on f.seq = m.seq and f.number = (select max(number) from failures where seq = m.seq)

-- name: remove_letter
delete from letters where id = ?
