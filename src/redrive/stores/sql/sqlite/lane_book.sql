-- Lanes and queues: reading and writing the rows that a LaneBook keeps during one transaction. Counters are written as
-- they are afterwards, not as differences: the writer holds the file's turn, so nobody came between.

-- As `QueueRow` reads it.
-- part: queue
queue, name, state, next_turn, round, round_ends, window_began_at, window_used, last_lane, in_a_row

-- As `LaneRow` reads it.
-- part: lane
lane, tenant, state, weight, cap, turn, wake_at, waiting_main, waiting_bulk, waiting_redrive, suspects,
  in_flight, dead, done, served, last_served_at, last_round, consecutive, last_track, probe_at, held_reason,
  rate_count, rate_period_s, window_began_at, window_used

-- name: queue
select {queue} from queues where name = ?

-- name: queue_by_number
select {queue} from queues where queue = ?

-- name: create_queue
insert into queues (name) values (?)

-- name: write_queue
update queues set state = ?, next_turn = ?, round = ?, round_ends = ?, window_began_at = ?, window_used = ?,
  last_lane = ?, in_a_row = ?
where queue = ?

-- name: lane
select {lane} from lanes where lane = ?

-- name: lanes_by_number
select {lane} from json_each(?2) j cross join lanes l on l.lane = j.value where l.queue = ?1

-- name: lanes_by_tenant
select {lane} from json_each(?2) j cross join lanes l on l.queue = ?1 and l.tenant = j.value

-- name: lane_of_tenant
select lane from lanes where queue = ? and tenant = ?

-- name: create_lane
insert into lanes (queue, tenant) values (?, ?)

-- name: ring
select {lane} from lanes indexed by ring where queue = ? and turn is not null order by turn limit ?

-- The same by their earliest message; one without any comes last.
-- name: ring_by_due
select {lane} from lanes l indexed by ring where queue = ?1 and turn is not null
order by min(
  coalesce((select min(m.due_at) from messages m indexed by due
    where l.waiting_main > 0 and m.lane = l.lane and m.track = 'main' and m.state = 'waiting' and m.crashes = 0), 1 << 62),
  coalesce((select min(m.due_at) from messages m indexed by due
    where l.waiting_bulk > 0 and m.lane = l.lane and m.track = 'bulk' and m.state = 'waiting' and m.crashes = 0), 1 << 62),
  coalesce((select min(m.due_at) from messages m indexed by due
    where l.waiting_redrive > 0 and m.lane = l.lane and m.track = 'redrive' and m.state = 'waiting' and m.crashes = 0),
    1 << 62)), turn
limit ?2

-- name: timers
select {lane} from lanes indexed by timer where queue = ? and wake_at <= ? order by wake_at limit ?

-- name: lanes_after
select {lane} from lanes where queue = ? and tenant > ? order by tenant limit ?

-- name: next_due
select min(due_at) from messages indexed by due
where lane = ? and track = ? and state = 'waiting' and crashes = 0

-- part: counters
waiting_main = ?, waiting_bulk = ?, waiting_redrive = ?, suspects = ?, in_flight = ?, dead = ?, done = ?, served = ?,
  last_served_at = ?, last_round = ?, consecutive = ?, last_track = ?

-- Of a lane that stays where it is: an index is rewritten whenever its column is named, changed or not.
-- name: write_counters
update lanes set {counters} where lane = ?

-- name: write_moved
update lanes set turn = ?, wake_at = ?, {counters} where lane = ?

-- name: write_place
update lanes set turn = ?, wake_at = ? where lane = ?

-- name: write_switches
update lanes set state = ?, weight = ?, cap = ?, probe_at = ?, held_reason = ?, rate_count = ?, rate_period_s = ?
where lane = ?

-- Only lanes that have, or had, a rate.
-- name: write_window
update lanes set window_began_at = ?, window_used = ?, free_at = ? where lane = ?
