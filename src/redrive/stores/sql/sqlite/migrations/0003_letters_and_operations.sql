-- Schema 3. The office's index of dead letters, what operations counted, archived letters, and lanes with a rate.
--
-- `letters` has one narrow row a dead letter, written by the statements that bury, re-drive or remove it; whoever
-- searches reads it and never writes it. kind, code and failure are those of the last failure; attempts counts
-- the failed ones since the last re-drive.

create table letters (
  id text primary key not null,
  queue text not null,
  tenant text not null,
  reason text not null,
  kind text,
  code text,
  failure text not null,
  fingerprint text not null,
  attempts integer not null,
  redriven integer not null,
  generation integer not null,
  enqueued_at integer not null,
  died_at integer not null,
  ttl_s real not null
) without rowid;
create index letter_age on letters (died_at, id);

create view letter_bodies (id, body) as
select m.id, b.body from messages m join bodies b using (seq) where m.state = 'dead';

insert into letters
select m.id, q.name, l.tenant, m.reason, f.kind, f.code, coalesce(f.reason, m.reason), coalesce(m.fingerprint, ''),
  (select count(*) from failures c where c.seq = m.seq and c.kind in ('temporary', 'permanent', 'uncertain')
    and c.at >= coalesce((select r.at from redrives r where r.seq = m.seq order by r.generation desc limit 1), 0)),
  (select count(*) from redrives r where r.seq = m.seq), m.generation, m.enqueued_at, m.died_at, m.ttl_s
from messages m join queues q using (queue) join lanes l using (lane)
  left join failures f on f.seq = m.seq and f.number = (select max(number) from failures where seq = m.seq)
where m.state = 'dead';

-- One row an operation; changed_at is when something was last counted, and when nothing is any more, it goes.
create table operations (
  operation text primary key not null,
  moved integer not null,
  passed integer not null,
  failed integer not null,
  done integer not null,
  dead integer not null,
  removed integer not null,
  changed_at integer not null
) without rowid;
create index operation_end on operations (changed_at);

-- An archived letter's bare record ages like a finished one; what people discarded or replaced has an age of its own.
-- Lists of two, because a longer one is made into a table for each row that is written.
drop index finished;
create index finished on messages (finished_at)
where (state = 'done' or move not in ('discard', 'replace')) and open_children = 0;
create index discarded on messages (finished_at) where move in ('discard', 'replace') and open_children = 0;

-- free_at is when a lane's rate next lets one go; it follows from the rate and its window.
alter table lanes add column rate_count integer;
alter table lanes add column rate_period_s real;
alter table lanes add column window_began_at integer not null default 0;
alter table lanes add column window_used integer not null default 0;
alter table lanes add column free_at integer not null default 0;
