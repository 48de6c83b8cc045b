-- Schema 9. What happened, added up over all processes: in all and by the minute, the labels that were given, and the
-- last batch of each process, so that one that is repeated counts once.

create table totals (
  name text not null,
  label text not null,
  part text not null,
  count integer not null,
  primary key (name, label, part)
) without rowid;

create table minutes (
  queue text not null,
  at integer not null,
  accepted integer not null,
  done integer not null,
  retried integer not null,
  dead integer not null,
  released integer not null,
  primary key (queue, at)
) without rowid;
create index minute_age on minutes (at);

create table total_labels (
  kind text not null,
  label text not null,
  primary key (kind, label)
) without rowid;

create table totals_from (
  source text primary key not null,
  number integer not null,
  at integer not null
) without rowid;
