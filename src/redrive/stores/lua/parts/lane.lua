-- lane.lua: a lane as it lies in :lanes, read once and written once a call.
-- Composed after: root
--
-- A lane is one packed record, so that a call reads and writes all its lanes with one command each: its
-- counters, and its switches where one was ever set. By track, behind READY and LATER: how many elements its
-- list and its sorted set have; behind LAST_DUE and LAST_EXPIRES: the greatest of its list. `turn`,
-- `timer_at` and `suspect_at` say where it stands, 0 is not there; `ring_turn` is what the ring has.

local TRACKS = { 'main', 'bulk', 'redrive' }
local SUSPECT = 'suspect'
local READY, LATER, LAST_DUE, LAST_EXPIRES = 0, 3, 6, 9
local STATES = { 'running', 'paused', 'held' }
local STATE_CODES = { running = 1, paused = 2, held = 3 }

local COUNTERS = '>I4I4I4I4I4I4I6I6I6I6I6I6' .. 'I4I4I4I4I6I6' .. 'I6I6I4BI6I6I6'
local COUNTERS_SIZE = 123
local SWITCHES = '>BI4i4I4I6I6I4I6I2c0'

-- What a lane has whose switches nobody ever touched.
local UNTOUCHED = {
  __index = {
    state = 'running', weight = 1, cap = -1, rate_count = 0, rate_period_ms = 0, window_began_at = 0, window_used = 0,
    probe_at = 0, held_reason = '',
  },
}

local lanes, touched = {}, {}
local sums = {}

local function set_switch(lane, switch, value)
  lane[switch], lane.switched = value, true
end

local function new_lane(tenant)
  return setmetatable({
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, tenant = tenant, new = true,
    waiting = 0, in_flight = 0, dead = 0, suspects = 0, done = 0, served = 0,
    last_served_at = 0, last_round = 0, consecutive = 0, last_track = 0,
    turn = 0, ring_turn = 0, timer_at = 0, suspect_at = 0,
  }, UNTOUCHED)
end

local function unpack_switches(lane, packed)
  local state, weight, cap, rate_count, rate_period_ms, window_began_at, window_used, probe_at, held_reason =
    struct.unpack(SWITCHES, packed, COUNTERS_SIZE + 1)
  lane.state, lane.weight, lane.cap, lane.rate_count, lane.rate_period_ms, lane.window_began_at, lane.window_used,
    lane.probe_at, lane.held_reason = STATES[state], weight, cap, rate_count, rate_period_ms, window_began_at,
    window_used, probe_at, held_reason
  lane.switched = true
end

local function unpack_lane(tenant, packed)
  local ready_main, ready_bulk, ready_redrive, later_main, later_bulk, later_redrive,
    due_main, due_bulk, due_redrive, expires_main, expires_bulk, expires_redrive,
    waiting, in_flight, dead, suspects, done, served,
    last_served_at, last_round, consecutive, last_track, turn, timer_at, suspect_at = struct.unpack(COUNTERS, packed)
  local lane = setmetatable({
    ready_main, ready_bulk, ready_redrive, later_main, later_bulk, later_redrive,
    due_main, due_bulk, due_redrive, expires_main, expires_bulk, expires_redrive, tenant = tenant,
    waiting = waiting, in_flight = in_flight, dead = dead, suspects = suspects, done = done, served = served,
    last_served_at = last_served_at, last_round = last_round, consecutive = consecutive, last_track = last_track,
    turn = turn, ring_turn = turn, timer_at = timer_at, suspect_at = suspect_at,
  }, UNTOUCHED)
  if #packed > COUNTERS_SIZE then
    unpack_switches(lane, packed)
  end
  return lane
end

local function pack_lane(lane)
  local counters = struct.pack(COUNTERS, lane[1], lane[2], lane[3], lane[4], lane[5], lane[6],
    lane[7], lane[8], lane[9], lane[10], lane[11], lane[12],
    lane.waiting, lane.in_flight, lane.dead, lane.suspects, lane.done, lane.served,
    lane.last_served_at, lane.last_round, lane.consecutive, lane.last_track, lane.turn, lane.timer_at, lane.suspect_at)
  if not lane.switched then
    return counters
  end
  return counters .. struct.pack(SWITCHES, STATE_CODES[lane.state], lane.weight, lane.cap, lane.rate_count,
    lane.rate_period_ms, lane.window_began_at, lane.window_used, lane.probe_at, #lane.held_reason, lane.held_reason)
end

local function load_lanes(tenants)
  for index, packed in ipairs(get_all(root .. ':lanes', tenants)) do
    local tenant = tenants[index]
    lanes[tenant] = lanes[tenant] or (packed and unpack_lane(tenant, packed)) or new_lane(tenant)
  end
end

-- The lane, which will be placed and written at the end of the call.
local function touch(tenant)
  local lane = lanes[tenant]
  if not lane then
    load_lanes({ tenant })
    lane = lanes[tenant]
  end
  if not lane.touched then
    lane.touched = true
    touched[#touched + 1] = lane
  end
  return lane
end

-- For the counters that a queue sums up.
local function count(lane, counter, by)
  lane[counter] = lane[counter] + by
  sums[counter] = (sums[counter] or 0) + by
end

local function write_lanes()
  local records = {}
  for index, lane in ipairs(touched) do
    records[2 * index - 1], records[2 * index] = lane.tenant, pack_lane(lane)
    if lane.new then
      note_entering(':tenants', 0, lane.tenant)
    end
  end
  call_all('HSET', root .. ':lanes', records)
  for counter, by in pairs(sums) do
    if by ~= 0 then
      redis.call('HINCRBY', root, counter, by)
    end
  end
end

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
