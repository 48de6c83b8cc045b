-- holds.lua: a verdict's hold of a lane, and its end. Composed after placement.lua.
--
-- Only a verdict's hold has a probe_at; a person's pause or hold has none and wins over it.

local function switch(tenant, state)
  redis.call('HSET', lane_key(tenant), 'state', state)
  redis.call('HDEL', lane_key(tenant), 'probe_at', 'held_reason')
  touch(tenant)
end

local function hold_lane(tenant, probe_at, reason)
  local lane = read_switches(tenant)
  if lane.state == 'running' or lane.probe_at then
    redis.call('HSET', lane_key(tenant), 'state', 'held', 'probe_at', probe_at, 'held_reason', reason)
    touch(tenant)
  end
end

local looked_at = {}

-- Looks at a lane once: holds are made after everything that could end them.
local function end_hold(tenant)
  if not looked_at[tenant] then
    looked_at[tenant] = true
    if redis.call('HEXISTS', lane_key(tenant), 'probe_at') == 1 then
      switch(tenant, 'running')
    end
  end
end
