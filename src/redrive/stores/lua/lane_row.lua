-- lane_row.lua: a lane as `lanes` and `set_lane` answer it.
-- Composed after: placement
--
-- { tenant, state, weight, cap or -1, rate: hand-outs a period or 0, its period in ms, waiting, in_flight,
-- dead, done,
--   served, last_served_at or 0, rounds waited, consecutive, probe_at or 0, held_reason }

-- Suspects do not wait for a turn of the ring, nor does a lane that is not due yet.
local function rounds_waited(lane)
  if lane.waiting - lane.suspects == 0 or lane.timer_at > 0 then
    return 0
  end
  return math.max(0, read_ring().round - lane.last_round)
end

local function lane_row(lane)
  return {
    lane.tenant, lane.state, lane.weight, lane.cap, lane.rate_count, lane.rate_period_ms,
    lane.waiting, lane.in_flight, lane.dead, lane.done, lane.served, lane.last_served_at, rounds_waited(lane),
    lane.consecutive, lane.probe_at, lane.held_reason,
  }
end
