-- Parents and children: a parent's body and record stay while it has open children, whatever its own state is. Each
-- statement names parents by id; the counts change in the step that adds, finishes or removes the children.

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
