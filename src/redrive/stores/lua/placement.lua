-- placement.lua: where a lane stands (core.lanes.place), and its counters. Composed after queue.lua.
--
-- Verbs note what changed with `count` and end with `place_touched`: each touched lane is then moved
-- once to the ring, the timer or neither, in the order in which the lanes were first touched.

local TRACKS = { 'main', 'bulk', 'redrive' }
local SUSPECT = 'suspect'

local function lane_key(tenant)
  return root .. ':lane:' .. tenant
end

local touched = {}
local touched_order = {}

local function touch(tenant)
  if not touched[tenant] then
    touched[tenant] = {}
    touched_order[#touched_order + 1] = tenant
  end
  return touched[tenant]
end

local function count(tenant, counter, by)
  local counters = touch(tenant)
  counters[counter] = (counters[counter] or 0) + by
end

local function current_round()
  return tonumber(redis.call('HGET', root, 'round') or 0)
end

local function write_counter(tenant, counter, by)
  redis.call('HINCRBY', root, counter, by)
  local value = redis.call('HINCRBY', lane_key(tenant), counter, by)
  -- A lane that had nothing waiting begins to count the rounds it waits.
  if counter == 'waiting' and value == by then
    redis.call('HSET', lane_key(tenant), 'last_round', current_round())
  end
end

local function write_counters(tenant)
  local counters = touched[tenant] or {}
  touched[tenant] = touched[tenant] and {}
  for counter, by in pairs(counters) do
    if by ~= 0 then
      write_counter(tenant, counter, by)
    end
  end
end

local function head_due_at(tenant, track)
  return tonumber(redis.call('ZRANGE', lane_key(tenant) .. ':' .. track, 0, 0, 'WITHSCORES')[2])
end

local function next_due_at(tenant)
  local earliest = nil
  for _, track in ipairs(TRACKS) do
    local due_at = head_due_at(tenant, track)
    if due_at and (not earliest or due_at < earliest) then
      earliest = due_at
    end
  end
  return earliest
end

local function tail_turn()
  return redis.call('HINCRBY', root, 'next_turn', 1) - 1
end

local function join_ring(tenant)
  redis.call('ZADD', root .. ':ring', tail_turn(), tenant)
  redis.call('HSET', lane_key(tenant), 'consecutive', 0, 'last_round', current_round())
end

local function read_switches(tenant)
  local lane = redis.call('HMGET', lane_key(tenant), 'state', 'cap', 'in_flight', 'probe_at')
  return {
    state = lane[1] or 'running', cap = tonumber(lane[2]),
    in_flight = tonumber(lane[3] or 0), probe_at = tonumber(lane[4]),
  }
end

-- core.lanes.effective_cap: nil is no limit.
local function room_of(lane)
  local cap = lane.cap
  if lane.state == 'held' then
    cap = 1
  end
  return cap and cap - lane.in_flight
end

-- core.lanes.next_run_at, and nil when the lane has no room.
local function next_run_at(lane, due_at)
  local room = room_of(lane)
  if not due_at or lane.state == 'paused' or (room and room < 1) then
    return nil
  end
  if lane.state == 'held' then
    return lane.probe_at and math.max(due_at, lane.probe_at)
  end
  return due_at
end

-- Returns whether the lane has newly joined the ring.
local function stand(tenant, due_at)
  local ring, timer = root .. ':ring', root .. ':timer'
  if due_at and due_at <= now then
    redis.call('ZREM', timer, tenant)
    if redis.call('ZSCORE', ring, tenant) then
      return false
    end
    join_ring(tenant)
    return true
  end
  redis.call('ZREM', ring, tenant)
  if due_at then
    redis.call('ZADD', timer, due_at, tenant)
  else
    redis.call('ZREM', timer, tenant)
  end
  return false
end

-- Returns whether the lane now has a due suspect that it had not before.
local function stand_suspects(tenant, due_at)
  local suspects = root .. ':suspects'
  if due_at then
    return redis.call('ZADD', suspects, due_at, tenant) == 1 and due_at <= now
  end
  redis.call('ZREM', suspects, tenant)
  return false
end

-- Suspects of a held lane wait, unless it has nothing else to probe with.
local function next_suspect_at(tenant, lane, due_at)
  if lane.state == 'held' and due_at then
    return nil
  end
  return next_run_at(lane, head_due_at(tenant, SUSPECT))
end

-- Returns whether there is news for a waiting worker.
local function place_lane(tenant)
  write_counters(tenant)
  local lane, due_at = read_switches(tenant), next_due_at(tenant)
  local joined = stand(tenant, next_run_at(lane, due_at))
  return stand_suspects(tenant, next_suspect_at(tenant, lane, due_at)) or joined
end

local function place_touched()
  local news = false
  for _, tenant in ipairs(touched_order) do
    news = place_lane(tenant) or news
  end
  if news then
    hint()
  end
end
