-- The least that is still a queue, for the limit rows of the bench: one table, one index by due instant.

-- name: schema
create table message (id integer primary key, due_at integer not null, taken_at integer, body blob not null);
create index due on message (due_at) where taken_at is null;

-- name: add
insert into message values (?, ?, null, ?)

-- name: take
update message set taken_at = 1 where id in (
  select id from message where taken_at is null and due_at <= ? order by due_at limit ?
) returning id, body

-- name: finish
delete from message where id in (select value from json_each(?))
