-- What operations counted: one row each, changed in the same transaction as the moves it counts.

-- name: count
insert into operations (operation, moved, passed, failed, done, dead, removed, changed_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (operation) do update set moved = moved + ?2, passed = passed + ?3, failed = failed + ?4,
  done = done + ?5, dead = dead + ?6, removed = removed + ?7, changed_at = ?8

-- name: tally
select moved, passed, failed, done, dead, removed from operations where operation = ?

-- name: remove_tallies
delete from operations where operation in
  (select operation from operations indexed by operation_end where changed_at < ? order by changed_at limit ?)
