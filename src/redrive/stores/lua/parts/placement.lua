-- placement.lua: where a lane stands, in the ring, on the timer or neither, by what rules.lua says.
-- Composed after: lane, rules
--
-- A verb changes lanes that it has touched and ends with `save_lanes`: each is then moved once to the ring,
-- the timer or neither, in the order in which the lanes were first touched.

local ring = nil

local function read_ring()
  if not ring then
    local found = redis.call('HMGET', root, 'next_turn', 'round', 'round_ends')
    ring = {
      next_turn = tonumber(found[1] or 1), round = tonumber(found[2] or 0), round_ends = tonumber(found[3] or 0),
    }
  end
  return ring
end

local function write_ring()
  if ring and ring.changed then
    redis.call('HSET', root, 'next_turn', ring.next_turn, 'round', ring.round, 'round_ends', ring.round_ends)
  end
end

local function later_key(track, tenant)
  return ':later:' .. TRACKS[track] .. ':' .. tenant
end

local function head_score(key)
  return tonumber(redis.call('ZRANGE', root .. key, 0, 0, 'WITHSCORES')[2])
end

-- What is in a ready list is due.
local function next_due_at(lane)
  if lane[READY + 1] > 0 or lane[READY + 2] > 0 or lane[READY + 3] > 0 then
    return 0
  end
  local earliest = nil
  for track = 1, #TRACKS do
    local due_at = lane[LATER + track] > 0 and head_score(later_key(track, lane.tenant))
    if due_at and (not earliest or due_at < earliest) then
      earliest = due_at
    end
  end
  return earliest
end

local function leave_timer(lane)
  if lane.timer_at > 0 then
    note_leaving(':timer', lane.tenant)
    lane.timer_at = 0
  end
end

-- Returns whether the lane has newly joined the ring.
local function stand_in_ring(lane)
  local joined = lane.turn == 0
  if joined then
    lane.turn, lane.consecutive, lane.last_round = rules.rotate(read_ring()), 0, ring.round
  end
  if lane.turn ~= lane.ring_turn then
    note_entering(':ring', lane.turn, lane.tenant)
    lane.ring_turn = lane.turn
  end
  leave_timer(lane)
  return joined
end

local timer_at = nil

-- Whether the timer's first lane comes later: those who wait for it must be told.
local function is_sooner(run_at)
  timer_at = timer_at or head_score(':timer') or math.huge
  return run_at < timer_at
end

-- Returns whether a lane is now the first on the timer.
local function stand_on_timer(lane, run_at)
  local sooner = false
  if lane.ring_turn > 0 then
    note_leaving(':ring', lane.tenant)
  end
  lane.turn, lane.ring_turn = 0, 0
  if not run_at then
    leave_timer(lane)
  elseif lane.timer_at ~= run_at then
    sooner = is_sooner(run_at)
    note_entering(':timer', run_at, lane.tenant)
    lane.timer_at = run_at
  end
  return sooner
end

-- Suspects of a held lane wait, unless it has nothing else to probe with. Returns whether a due one is new.
local function stand_suspects(lane, due_at)
  local run_at = nil
  if lane.suspects > 0 and not (lane.state == 'held' and due_at) then
    run_at = rules.place(lane, head_score(':suspect:' .. lane.tenant))
  end
  local before_at = lane.suspect_at
  if run_at and run_at ~= before_at then
    note_entering(':suspects', run_at, lane.tenant)
  elseif not run_at and before_at > 0 then
    note_leaving(':suspects', lane.tenant)
  end
  lane.suspect_at = run_at or 0
  return before_at == 0 and run_at ~= nil and run_at <= now
end

-- Returns whether there is news for a waiting worker. A lane whose switches nobody ever touched has no pause, cap or rate:
-- most have none, and a claim places dozens of them.
local function place_lane(lane)
  local news
  local due_at = next_due_at(lane)
  local run_at = due_at
  if lane.switched then
    run_at = rules.place(lane, due_at)
  end
  if run_at and run_at <= now then
    news = stand_in_ring(lane)
  else
    news = stand_on_timer(lane, run_at)
  end
  if lane.suspects > 0 or lane.suspect_at > 0 then
    news = stand_suspects(lane, due_at) or news
  end
  return news
end

-- Elements are written before, so that the heads are known. Returns whether there is news.
local function save_lanes()
  write_noted()
  local news = false
  for _, lane in ipairs(touched) do
    news = place_lane(lane) or news
  end
  write_lanes()
  write_noted()
  write_ring()
  if news then
    hint()
  end
end

-- Suspects do not wait for a turn of the ring, nor does a lane that is not due yet.
local function rounds_waited(lane)
  if lane.waiting - lane.suspects == 0 or lane.timer_at > 0 then
    return 0
  end
  return math.max(0, read_ring().round - lane.last_round)
end

-- How many messages a lane was handed out in a row, until now: 0 once another was served.
local function in_a_row_of(lane)
  local served = redis.call('HMGET', root, 'last_tenant', 'in_a_row')
  return served[1] == lane.tenant and tonumber(served[2]) or 0
end

-- A lane as `lane`, `lanes` and `set_lane` answer it, with the fields of _LaneRow in lanes.py.
local function lane_row(lane)
  return {
    lane.tenant, lane.state, lane.weight, lane.cap, lane.rate_count, lane.rate_period_ms,
    lane.waiting, lane.in_flight, lane.dead, lane.done, lane.served, lane.last_served_at, rounds_waited(lane),
    in_a_row_of(lane), lane.probe_at, lane.held_reason,
  }
end
