-- The copy that SQL is asked of: a table `dlq` in memory, with the names that a letter's document has. The index is attached as `source`
-- while it is filled, and gone before anybody's statement is read.

-- name: table
create table dlq (
  jobId text, outboxId text, companyId text, queue text, reason text, kind text, fingerprint text,
  originalData text, failedAttempts integer, lastFailureReason text, lastFailureCode text, lastFailureTimestamp text,
  enqueuedAt text, movedToDLQAt text, firstDiedAt text, ttl integer, redriven integer, generation integer,
  id text as (jobId), tenant text as (companyId), code text as (lastFailureCode), failure text as (lastFailureReason),
  attempts integer as (failedAttempts), died text as (firstDiedAt), moved text as (movedToDLQAt),
  redied text as (iif(firstDiedAt <> movedToDLQAt, movedToDLQAt, null)), enqueued text as (enqueuedAt),
  payload text as (originalData)
)

-- name: attach
attach ? as source

-- name: detach
detach source

-- name: total
select count(*) from source.letters where :scope is null or tenant = :scope

-- How many of the newest letters have payloads of :bytes together; one that is too large to copy counts as nothing.
-- name: fitting
select count(*) from (
  select sum(iif(size > :largest, 0, size)) over (order by died_at desc, id desc rows unbounded preceding) as taken
  from (
    select l.died_at, l.id, (select length(b.body) from source.letter_bodies b where b.id = l.id) as size
    from source.letters l
    where :scope is null or tenant = :scope
    order by died_at desc, id desc limit :size
  )
)
where taken <= :bytes

-- The newest letters. Times and payloads cost the most, and only what is asked for is made. The last failure is the
-- one that a letter died of, so it has the instant of its death.
-- name: fill
insert into dlq
select id, id, tenant, queue, reason, kind, fingerprint,
  iif(:payloads, (select original_data(b.body) from source.letter_bodies b where b.id = newest.id), null), attempts,
  iif(:redact, redacted(failure), failure), code, died, iif(:times, strftime('%Y-%m-%dT%H:%M:%fZ', enqueued_at / 1000.0, 'unixepoch'), null), died,
  iif(:times, strftime('%Y-%m-%dT%H:%M:%fZ', first_died_at / 1000.0, 'unixepoch'), null), :ttl, redriven,
  generation
from (
  select *, iif(:times, strftime('%Y-%m-%dT%H:%M:%fZ', died_at / 1000.0, 'unixepoch'), null) as died
  from source.letters
  where :scope is null or tenant = :scope
  order by died_at desc, id desc limit :size
) newest
