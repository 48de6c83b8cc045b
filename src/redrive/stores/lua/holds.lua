-- holds.lua: a verdict's hold of a lane, and its end.
-- Composed after: lane_record
--
-- Only a verdict's hold has a probe_at; a person's pause or hold has none and wins over it.

local function hold(lane, state, probe_at, reason)
  set_switch(lane, 'state', state)
  set_switch(lane, 'probe_at', probe_at)
  set_switch(lane, 'held_reason', reason)
end

local function switch(lane, state)
  hold(lane, state, 0, '')
end

local function hold_lane(tenant, probe_at, reason)
  local lane = touch(tenant)
  if lane.state == 'running' or lane.probe_at > 0 then
    hold(lane, 'held', probe_at, reason)
  end
end

local function end_hold(tenant)
  local lane = touch(tenant)
  if lane.probe_at > 0 then
    switch(lane, 'running')
  end
end
