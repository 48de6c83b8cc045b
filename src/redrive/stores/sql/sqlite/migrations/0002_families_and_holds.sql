-- Schema 2. Messages that share a parent's body, and lanes that a verdict holds.
--
-- parent is an id, not a number: numbers are used again, and a child may outlive its parent's record.
-- open_children counts those that are not done, cancelled or purged; while there are any, body and record stay.

alter table messages add column parent text;
alter table messages add column open_children integer not null default 0;
create index family on messages (parent) where parent is not null;

drop index finished;
create index finished on messages (finished_at)
where (state = 'done' or move in ('cancel', 'purge')) and open_children = 0;

-- Only a verdict's hold has an instant to probe at and a reason.
alter table lanes add column probe_at integer;
alter table lanes add column held_reason text;

-- What of a batch was claimed from held lanes (JSON), so that a repeated claim answers the same.
alter table leases add column probes text;
