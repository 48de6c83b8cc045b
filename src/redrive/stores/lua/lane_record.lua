-- lane_record.lua: a lane as it lies in :lanes, read once and written once a call. Composed after queue.lua.
--
-- A lane is one packed record, so that a call reads and writes all its lanes with one command each. `ready` and
-- `later` count the elements of its lists and of its sorted sets by track; `last_due` and `last_expires` are the
-- greatest of each ready list. `turn`, `timer_at` and `suspect_at` say where it stands: 0 is not there.

local TRACKS = { 'main', 'bulk', 'redrive' }
local SUSPECT = 'suspect'
local STATES = { 'running', 'paused', 'held' }
local STATE_CODES = { running = 1, paused = 2, held = 3 }

local LANE = '>BI4i4I4I6I6I4' .. 'I4I4I4I4I6I6' .. 'I4I4I4I4I4I4' .. 'I6I6I6I6I6I6' .. 'I6I6I4B' .. 'I6I6I6I6I2c0'

local lanes, touched = {}, {}
local sums = {}

local function new_lane(tenant)
  return {
    tenant = tenant, new = true, state = 'running', weight = 1, cap = -1,
    rate_count = 0, rate_period_ms = 0, window_began_at = 0, window_used = 0,
    waiting = 0, in_flight = 0, dead = 0, suspects = 0, done = 0, served = 0,
    ready = { 0, 0, 0 }, later = { 0, 0, 0 }, last_due = { 0, 0, 0 }, last_expires = { 0, 0, 0 },
    last_served_at = 0, last_round = 0, consecutive = 0, last_track = 0,
    turn = 0, ring_turn = 0, timer_at = 0, suspect_at = 0, probe_at = 0, held_reason = '',
  }
end

local function unpack_lane(tenant, packed)
  if not packed then
    return new_lane(tenant)
  end
  local state, weight, cap, rate_count, rate_period_ms, window_began_at, window_used,
    waiting, in_flight, dead, suspects, done, served,
    ready_main, ready_bulk, ready_redrive, later_main, later_bulk, later_redrive,
    due_main, due_bulk, due_redrive, expires_main, expires_bulk, expires_redrive,
    last_served_at, last_round, consecutive, last_track,
    turn, timer_at, suspect_at, probe_at, held_reason = struct.unpack(LANE, packed)
  return {
    tenant = tenant, state = STATES[state], weight = weight, cap = cap,
    rate_count = rate_count, rate_period_ms = rate_period_ms,
    window_began_at = window_began_at, window_used = window_used,
    waiting = waiting, in_flight = in_flight, dead = dead, suspects = suspects, done = done, served = served,
    ready = { ready_main, ready_bulk, ready_redrive }, later = { later_main, later_bulk, later_redrive },
    last_due = { due_main, due_bulk, due_redrive },
    last_expires = { expires_main, expires_bulk, expires_redrive },
    last_served_at = last_served_at, last_round = last_round,
    consecutive = consecutive, last_track = last_track,
    turn = turn, ring_turn = turn, timer_at = timer_at, suspect_at = suspect_at,
    probe_at = probe_at, held_reason = held_reason,
  }
end

local function pack_lane(lane)
  local ready, later, due, expires = lane.ready, lane.later, lane.last_due, lane.last_expires
  return struct.pack(LANE, STATE_CODES[lane.state], lane.weight, lane.cap,
    lane.rate_count, lane.rate_period_ms, lane.window_began_at, lane.window_used,
    lane.waiting, lane.in_flight, lane.dead, lane.suspects, lane.done, lane.served,
    ready[1], ready[2], ready[3], later[1], later[2], later[3],
    due[1], due[2], due[3], expires[1], expires[2], expires[3],
    lane.last_served_at, lane.last_round, lane.consecutive, lane.last_track,
    lane.turn, lane.timer_at, lane.suspect_at, lane.probe_at, #lane.held_reason, lane.held_reason)
end

local function load_lanes(tenants)
  for index, packed in ipairs(get_all(root .. ':lanes', tenants)) do
    local tenant = tenants[index]
    lanes[tenant] = lanes[tenant] or unpack_lane(tenant, packed)
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
  for _, lane in ipairs(touched) do
    records[#records + 1], records[#records + 2] = lane.tenant, pack_lane(lane)
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
