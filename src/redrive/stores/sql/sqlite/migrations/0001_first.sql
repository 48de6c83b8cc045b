-- Schema 1. Runs once, under the turn lock, in one transaction.
--
-- A message has one row in `messages` from acceptance until its finished record is cleaned up, so that it is in
-- exactly one state by construction; its headers and body stand apart in `bodies`, because the small row is
-- written three times and the body once. Instants are milliseconds, durations seconds.

create table queues (
  queue integer primary key,
  name text not null unique,
  state text not null default 'running',
  next_turn integer not null default 0,
  round integer not null default 0,
  round_ends integer not null default 0,
  window_began_at integer not null default 0,
  window_used integer not null default 0
);

-- turn: in the ring. wake_at: on the timer. Neither: parked, or nothing waits. The waiting counters leave
-- suspects out; those are counted apart and never bring a lane into the ring.
create table lanes (
  lane integer primary key,
  queue integer not null,
  tenant text not null,
  state text not null default 'running',
  weight integer not null default 1,
  cap integer,
  turn integer,
  wake_at integer,
  waiting_main integer not null default 0,
  waiting_bulk integer not null default 0,
  waiting_redrive integer not null default 0,
  suspects integer not null default 0,
  in_flight integer not null default 0,
  dead integer not null default 0,
  done integer not null default 0,
  served integer not null default 0,
  last_served_at integer,
  last_round integer not null default 0,
  consecutive integer not null default 0,
  last_track text,
  unique (queue, tenant)
);
create index ring on lanes (queue, turn) where turn is not null;
create index timer on lanes (queue, wake_at) where wake_at is not null;

-- track is where the message waits now, first_track the one it was submitted on. lease points into `leases`
-- while it is claimed. move and actor say how a removed one was removed.
create table messages (
  seq integer primary key,
  id text not null unique,
  queue integer not null,
  lane integer not null,
  state text not null,
  track text not null,
  due_at integer not null,
  expires_at integer not null,
  attempts integer not null,
  crashes integer not null,
  generation integer not null,
  size integer not null,
  lease integer,
  enqueued_at integer not null,
  ttl_s real not null,
  first_track text not null,
  dedupe text,
  operation text,
  lapse text,
  finished_at integer,
  died_at integer,
  reason text,
  fingerprint text,
  move text,
  actor text
);
-- seq stands before size so that messages due at one instant keep their order; the rest makes it covering.
create index due on messages (lane, track, due_at, seq, size, attempts) where state = 'waiting' and crashes = 0;
create index suspect on messages (queue, due_at) where state = 'waiting' and crashes > 0;
create index expiry on messages (queue, expires_at) where state = 'waiting';
create index dead_of_queue on messages (queue, died_at) where state = 'dead';
create index dead_of_all on messages (died_at) where state = 'dead';
-- A discarded letter is not in it: nothing dead is ever cleaned up.
create index finished on messages (finished_at) where state = 'done' or move in ('cancel', 'purge');

create table bodies (seq integer primary key, headers text, body blob not null);

-- One row a claimed batch; seqs is what it got (JSON), held how much of that it still holds.
create table leases (
  lease integer primary key,
  token text not null unique,
  queue integer not null,
  until_at integer not null,
  held integer not null,
  seqs text not null
);
create index lease_end on leases (queue, until_at);

create table failures (
  seq integer not null,
  number integer not null,
  at integer not null,
  attempt integer not null,
  kind text not null,
  reason text not null,
  code text,
  scope text,
  fingerprint text not null,
  traceback integer,
  primary key (seq, number)
) without rowid;
create table tracebacks (
  traceback integer primary key,
  hash blob not null unique,
  text text not null,
  uses integer not null
);

create table redrives (
  seq integer not null,
  generation integer not null,
  at integer not null,
  actor text not null,
  operation text,
  result text not null,
  primary key (seq, generation)
) without rowid;

-- expires_at is null while the message lives; an expired key counts as absent.
create table dedupe (
  lane integer not null,
  key text not null,
  id text not null,
  hash blob not null,
  expires_at integer,
  primary key (lane, key)
) without rowid;
create index dedupe_end on dedupe (expires_at) where expires_at is not null;

create table records (
  kind text not null,
  id text not null,
  version integer not null,
  document text not null,
  expires_at integer,
  primary key (kind, id)
) without rowid;
create index record_end on records (expires_at) where expires_at is not null;

create table journal (
  name text not null,
  position integer not null,
  at integer not null,
  document text not null,
  primary key (name, position)
) without rowid;
