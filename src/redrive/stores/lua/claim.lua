#!lua flags=allow-oom
-- claim: hand out due messages, fairly over tenants (core.lanes.take_turns), attempt + 1, under a token.
-- Composed after: queue, placement, messages, leases
--
-- KEYS 1  the queue's root
-- ARGV 1  skew           ARGV 2  token         ARGV 3  limit
-- ARGV 4  lease in ms    ARGV 5  most bytes    ARGV 6  quantum
-- ARGV 7  rate: hand-outs a period, 0 for no limit         ARGV 8  rate: period in ms
-- ARGV 9  1: one suspect and nothing else, 0: no suspects
-- Returns { now, suspects wait (1 or 0), next_at or -1, batch as leases.held says }

local WAKE = 200

local token, limit, lease_ms = ARGV[2], integer(3), integer(4)
local most_bytes, quantum = integer(5), integer(6)
local rate_count, rate_period_ms, alone = integer(7), integer(8), integer(9) == 1

local taken, taken_bytes = 0, 0
local full = false

-- core.limits.reserve: a period begins with its first hand-out.
local function open_window()
  local window = redis.call('HMGET', root, 'window_began_at', 'window_used')
  local began_at, used = tonumber(window[1] or 0), tonumber(window[2] or 0)
  if now >= began_at + rate_period_ms or now < began_at then
    return now, 0
  end
  return began_at, used
end

local window_began_at, window_used = open_window()
if rate_count > 0 then
  limit = math.min(limit, rate_count - window_used)
end

-- A child comes with its parent's body.
local function size_of(progress)
  return progress.size + (progress.shared or 0)
end

local function fits(progress)
  return taken == 0 or taken_bytes + size_of(progress) <= most_bytes
end

local function hand_out(id, progress, probe)
  leave_waiting(id, progress)
  progress.attempts, progress.charged, progress.lapse = progress.attempts + 1, true, nil
  progress.probe = probe or nil
  hold(id, progress, token, taken)
  count(progress.tenant, 'in_flight', 1)
  count(progress.tenant, 'served', 1)
  taken, taken_bytes = taken + 1, taken_bytes + size_of(progress)
end

-- Returns whether the message was handed out; if not, the claim is full.
local function offer(member, tenant, track, probe)
  local id = id_of(member)
  local sequence = tonumber(string.sub(member, 1, SEQUENCE_DIGITS))
  local progress = read_progress(id) or salvage_progress(id, tenant, track, sequence)
  if taken >= limit or not fits(progress) then
    full = true
    return false
  end
  hand_out(id, progress, probe)
  return true
end

local function read_due(tenant, most)
  local due = {}
  for index, track in ipairs(TRACKS) do
    local key = lane_key(tenant) .. ':' .. track
    due[index] = { next = 1, members = redis.call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, most) }
  end
  return due
end

-- The track after the last one that has due work, so that none starves another.
local function pick_track(due, last)
  for step = 1, #TRACKS do
    local index = (last + step - 1) % #TRACKS + 1
    if due[index].members[due[index].next] then
      return index
    end
  end
  return nil
end

local function read_turn(tenant)
  local lane, switches = redis.call('HMGET', lane_key(tenant), 'weight', 'consecutive', 'last_track'),
    read_switches(tenant)
  local turn = { consecutive = tonumber(lane[2] or 0), last_track = tonumber(lane[3] or 0) }
  turn.quantum = quantum * tonumber(lane[1] or 1)
  turn.most = math.max(0, turn.quantum - turn.consecutive)
  turn.most = math.min(turn.most, room_of(switches) or turn.most)
  turn.probe = switches.state == 'held'
  return turn
end

local function serve_turn(tenant, turn)
  local due = read_due(tenant, math.max(1, math.min(turn.most, limit - taken + 1)))
  for _ = 1, turn.most do
    local index = pick_track(due, turn.last_track)
    if not index or not offer(due[index].members[due[index].next], tenant, TRACKS[index], turn.probe) then
      return
    end
    due[index].next = due[index].next + 1
    turn.consecutive, turn.last_track, turn.served = turn.consecutive + 1, index, true
  end
end

-- core.lanes.Ring.serve: passing the mark begins a new round.
local function round_of(number)
  local ring = redis.call('HMGET', root, 'round', 'round_ends', 'next_turn')
  local round = tonumber(ring[1] or 0)
  if number >= tonumber(ring[2] or 0) then
    round = round + 1
    redis.call('HSET', root, 'round', round, 'round_ends', ring[3])
  end
  return round
end

local function end_turn(tenant, number, turn)
  if turn.served then
    redis.call('HSET', lane_key(tenant), 'last_served_at', now, 'last_round', round_of(number),
      'last_track', turn.last_track)
  end
  if turn.consecutive >= turn.quantum then
    turn.consecutive = 0
    redis.call('ZADD', root .. ':ring', tail_turn(), tenant)
  end
  redis.call('HSET', lane_key(tenant), 'consecutive', turn.consecutive)
  place_lane(tenant)
end

local function take_turns()
  while not full and taken < limit do
    local head = redis.call('ZRANGE', root .. ':ring', 0, 0, 'WITHSCORES')
    if not head[1] then
      return
    end
    local turn = read_turn(head[1])
    serve_turn(head[1], turn)
    end_turn(head[1], tonumber(head[2]), turn)
  end
end

local function take_suspect()
  local tenant = redis.call('ZRANGE', root .. ':suspects', '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)[1]
  if not tenant or limit < 1 then
    return
  end
  local probe = read_switches(tenant).state == 'held'
  offer(redis.call('ZRANGE', lane_key(tenant) .. ':' .. SUSPECT, 0, 0)[1], tenant, SUSPECT, probe)
  redis.call('HSET', lane_key(tenant), 'last_served_at', now)
  place_lane(tenant)
end

local function wake_timers()
  local due = redis.call('ZRANGE', root .. ':timer', '-inf', now, 'BYSCORE', 'LIMIT', 0, WAKE)
  for _, tenant in ipairs(due) do
    place_lane(tenant)
  end
end

local function earliest(first, second)
  return first and second and math.min(first, second) or first or second
end

local function head_score(key, minimum)
  local head = redis.call('ZRANGE', key, minimum, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return tonumber(head[2])
end

local function find_next_at()
  local ring_at = redis.call('EXISTS', root .. ':ring') == 1 and now or nil
  local timer_at = head_score(root .. ':timer', '-inf')
  local next_at = earliest(earliest(ring_at, timer_at), head_score(root .. ':suspects', '(' .. now))
  if next_at and rate_count > 0 and window_used >= rate_count then
    return math.max(next_at, window_began_at + rate_period_ms)
  end
  return next_at or -1
end

local function write_lease()
  redis.call('ZADD', root .. ':leases', now + lease_ms, token)
  window_used = window_used + taken
  if rate_count > 0 then
    redis.call('HSET', root, 'window_began_at', window_began_at, 'window_used', window_used)
  end
end

-- Hints left over from work that is gone would only wake a worker for nothing.
local function pass_hint_on()
  if redis.call('EXISTS', root .. ':ring') == 0 then
    redis.call('DEL', root .. ':hint')
  elseif taken > 0 and (rate_count == 0 or window_used < rate_count) then
    hint()
  end
end

local function hand_out_batch()
  wake_timers()
  if alone then
    take_suspect()
  else
    take_turns()
  end
  if taken > 0 then
    write_lease()
  end
  pass_hint_on()
end

local paused = (redis.call('HGET', root, 'state') or 'running') ~= 'running'
local repeated = redis.call('EXISTS', lease_key(token)) == 1
if not repeated and not paused then
  hand_out_batch()
end
local suspects = redis.call('ZCOUNT', root .. ':suspects', '-inf', now) > 0 and not paused
return { now, suspects and 1 or 0, paused and -1 or find_next_at(), held(token, repeated) }
