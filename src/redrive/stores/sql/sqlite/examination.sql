-- How much of the file waits and how much is dead, without reading it: the lanes say how many, a few bodies how large,
-- and the constants what rows and indexes cost beside a body. Tables and indexes have a page each, also when empty.

-- name: bytes_by_state
with counts (waiting, dead) as (
  select coalesce(sum(waiting_main + waiting_bulk + waiting_redrive + suspects + in_flight), 0), coalesce(sum(dead), 0)
  from lanes
),
waiting_sample (size) as (select size from messages indexed by expiry where state = 'waiting' limit 200),
dead_sample (size) as (select size from messages indexed by dead_of_all where state = 'dead' limit 200)
select
  exists (select 1 from messages indexed by ended where finished_at is not null),
  (select count(*) from sqlite_schema where rootpage > 0),
  cast(waiting * (450 + coalesce((select avg(size) from waiting_sample), 0)) as integer),
  cast(dead * (1000 + coalesce((select avg(size) from dead_sample), 0)) as integer)
from counts
