-- Lanes and queues: reading and writing the rows that a LaneBook keeps during one transaction. Counters are written as
-- they are afterwards, not as differences: the writer holds the file's turn, so nobody came between.

-- name: queue
select queue, name, state, next_turn, round, round_ends, window_began_at, window_used from queues where name = ?

-- name: queue_by_number
select queue, name, state, next_turn, round, round_ends, window_began_at, window_used from queues where queue = ?

-- name: create_queue
insert into queues (name) values (?)

-- name: write_queue
update queues set state = ?, next_turn = ?, round = ?, round_ends = ?, window_began_at = ?, window_used = ?
where queue = ?

-- name: lane
select lane, tenant, state, weight, cap, turn, wake_at, waiting_main, waiting_bulk, waiting_redrive, suspects,
  in_flight, dead, done, served, last_served_at, last_round, consecutive, last_track, probe_at, held_reason,
  rate_count, rate_period_s, window_began_at, window_used
from lanes where lane = ?

-- name: lanes_by_number
select l.lane, l.tenant, l.state, l.weight, l.cap, l.turn, l.wake_at, l.waiting_main, l.waiting_bulk,
  l.waiting_redrive, l.suspects, l.in_flight, l.dead, l.done, l.served, l.last_served_at, l.last_round,
  l.consecutive, l.last_track, l.probe_at, l.held_reason, l.rate_count, l.rate_period_s, l.window_began_at,
  l.window_used
from json_each(?2) j cross join lanes l on l.lane = j.value where l.queue = ?1

-- name: lanes_by_tenant
select l.lane, l.tenant, l.state, l.weight, l.cap, l.turn, l.wake_at, l.waiting_main, l.waiting_bulk,
  l.waiting_redrive, l.suspects, l.in_flight, l.dead, l.done, l.served, l.last_served_at, l.last_round,
  l.consecutive, l.last_track, l.probe_at, l.held_reason, l.rate_count, l.rate_period_s, l.window_began_at,
  l.window_used
from json_each(?2) j cross join lanes l on l.queue = ?1 and l.tenant = j.value

-- name: lane_of_tenant
select lane from lanes where queue = ? and tenant = ?

-- name: create_lane
insert into lanes (queue, tenant) values (?, ?)

-- name: ring
select lane, tenant, state, weight, cap, turn, wake_at, waiting_main, waiting_bulk, waiting_redrive, suspects,
  in_flight, dead, done, served, last_served_at, last_round, consecutive, last_track, probe_at, held_reason,
  rate_count, rate_period_s, window_began_at, window_used
from lanes indexed by ring where queue = ? and turn is not null order by turn limit ?

-- name: timers
select lane, tenant, state, weight, cap, turn, wake_at, waiting_main, waiting_bulk, waiting_redrive, suspects,
  in_flight, dead, done, served, last_served_at, last_round, consecutive, last_track, probe_at, held_reason,
  rate_count, rate_period_s, window_began_at, window_used
from lanes indexed by timer where queue = ? and wake_at <= ? order by wake_at limit ?

-- name: next_due
select min(due_at) from messages indexed by due
where lane = ? and track = ? and state = 'waiting' and crashes = 0

-- Apart from write_place, because an index is rewritten whenever its column is named, changed or not.
-- name: write_counters
update lanes set waiting_main = ?, waiting_bulk = ?, waiting_redrive = ?, suspects = ?, in_flight = ?, dead = ?,
  done = ?, served = ?, last_served_at = ?, last_round = ?, consecutive = ?, last_track = ?
where lane = ?

-- name: write_place
update lanes set turn = ?, wake_at = ? where lane = ?

-- name: write_switches
update lanes set state = ?, weight = ?, cap = ?, probe_at = ?, held_reason = ?, rate_count = ?, rate_period_s = ?
where lane = ?

-- Only lanes that have, or had, a rate.
-- name: write_window
update lanes set window_began_at = ?, window_used = ?, free_at = ? where lane = ?
