-- The disposable index of a store that has none itself: the relations of the SQLite store's own, and how far each
-- queue's changes were taken in. Written by one process at a time, a page of changes a transaction.

-- name: schema
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
  ttl_s real not null,
  first_died_at integer not null
) without rowid;
create index letter_age on letters (died_at, id);
create table letter_bodies (id text primary key not null, body blob not null);
create table positions (queue text primary key not null, position integer not null) without rowid;
create table caught_up (one integer primary key check (one = 1), at integer not null);

-- name: position
select position from positions where queue = ?

-- name: positions
select queue, position from positions

-- name: set_position
insert into positions (queue, position) values (?, ?)
on conflict (queue) do update set position = excluded.position

-- name: caught_up
select at from caught_up

-- name: set_caught_up
insert into caught_up (one, at) values (1, ?) on conflict (one) do update set at = excluded.at

-- name: add_letter
insert or replace into letters values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_body
insert or replace into letter_bodies values (?, ?)

-- An id is a queue's own: what left one queue may be dead in another.
-- name: remove_body
delete from letter_bodies where id in (select id from letters where id = ? and queue = ?)

-- name: remove_letter
delete from letters where id = ? and queue = ?

-- name: forget_bodies
delete from letter_bodies where id in (select id from letters where queue = ?)

-- name: forget_letters
delete from letters where queue = ?
