-- Failures of a message in order, over all generations; equal tracebacks are stored once and counted.

-- name: add_failure
insert into failures (seq, number, at, attempt, kind, reason, code, scope, fingerprint, traceback)
values (?1, (select coalesce(max(number), 0) + 1 from failures where seq = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

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
select f.at, f.attempt, f.kind, f.reason, f.code, f.scope, f.fingerprint, t.text
from failures f left join tracebacks t using (traceback) where f.seq = ? order by f.number

-- name: redrives
select at, generation, actor, operation, result from redrives where seq = ? order by generation
