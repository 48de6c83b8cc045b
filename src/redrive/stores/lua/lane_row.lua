-- lane_row.lua: a lane as `lanes` and `set_lane` answer it. Composed after placement.lua.
--
-- { tenant, state, weight, cap or -1, waiting, in_flight, dead, done, served, last_served_at or -1,
--   rounds waited, consecutive, probe_at or -1, held_reason }

-- Suspects do not wait for a turn of the ring, nor does a lane that is not due yet.
local function rounds_waited(tenant, ordinary, last_round)
  if ordinary == 0 or redis.call('ZSCORE', root .. ':timer', tenant) then
    return 0
  end
  return math.max(0, current_round() - last_round)
end

local function lane_row(tenant)
  local lane = redis.call('HMGET', lane_key(tenant), 'state', 'weight', 'cap', 'waiting', 'in_flight', 'dead',
    'done', 'served', 'last_served_at', 'last_round', 'consecutive', 'suspects', 'probe_at', 'held_reason')
  local function number(index, missing)
    return tonumber(lane[index] or missing)
  end
  return {
    tenant, lane[1] or 'running', number(2, 1), number(3, -1), number(4, 0), number(5, 0), number(6, 0),
    number(7, 0), number(8, 0), number(9, -1),
    rounds_waited(tenant, number(4, 0) - number(12, 0), number(10, 0)), number(11, 0), number(13, -1),
    lane[14] or '',
  }
end
