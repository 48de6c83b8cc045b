#!lua flags=allow-oom
-- claim: hand out due messages, fairly over tenants (core.lanes.take_turns), attempt + 1, under a token.
-- Composed after: streams
--
-- KEYS 1  the queue's root
-- ARGV 1  skew           ARGV 2  token         ARGV 3  limit
-- ARGV 4  lease in ms    ARGV 5  most bytes    ARGV 6  quantum
-- ARGV 7  rate: hand-outs a period, 0 for no limit         ARGV 8  rate: period in ms
-- ARGV 9  1: one suspect and nothing else, 0: no suspects
-- Returns { now, suspects wait (1 or 0), next_at or -1, batch as leases.answer_batch says }

local WAKE = 200

local token, limit, lease_ms = ARGV[2], integer(3), integer(4)
local most_bytes, quantum = integer(5), integer(6)
local rate_count, rate_period_ms, alone = integer(7), integer(8), integer(9) == 1

local ids, held, frames, tried = {}, {}, {}, {}
local taken_bytes, full = 0, false

-- core.limits.reserve: a period begins with its first hand-out.
local function open_window()
  local window = redis.call('HMGET', root, 'window_began_at', 'window_used')
  local began_at, used = tonumber(window[1] or 0), tonumber(window[2] or 0)
  if now >= began_at + rate_period_ms or now < began_at then
    return now, 0
  end
  return began_at, used
end

local window_began_at, window_used = 0, 0
if rate_count > 0 then
  window_began_at, window_used = open_window()
  limit = math.min(limit, rate_count - window_used)
end

-- A child comes with its parent's body.
local shared = {}

local function shared_size(id)
  local head = read_head(redis.call('HGET', root .. ':messages', id))
  if not head or not head.parent then
    return 0
  end
  if not shared[head.parent] then
    local parent = read_head(find_frame(head.parent))
    shared[head.parent] = parent and parent.size or 0
  end
  return shared[head.parent]
end

local last_lane, last_name, last_value = nil, nil, nil

-- What :held says of a message before its head; the same for all of a lane's track and marks.
local function held_value(lane, track, marks)
  local name = marks * 4 + track
  if lane ~= last_lane or name ~= last_name then
    local kept = bit.band(marks, TRIED + CHILD) + CHARGED + (lane.state == 'held' and PROBE or 0)
    last_lane, last_name, last_value = lane, name, pack_held(kept, track, lane.tenant, token)
  end
  return last_value
end

-- Returns whether the message was handed out; if not, the claim is full.
local function offer(lane, track, element)
  local _, _, size, marks = struct.unpack(ELEMENT, element)
  local id, number = id_of(element), #ids
  if marks >= CHILD and bit.band(marks, CHILD) > 0 then
    size = size + shared_size(id)
  end
  if number >= limit or (number > 0 and taken_bytes + size > most_bytes) then
    full = true
    return false
  end
  ids[number + 1], held[number + 1] = id, held_value(lane, track, marks)
  if marks > 0 and bit.band(marks, TRIED) > 0 then
    tried[#tried + 1] = { id, lane, track }
  end
  taken_bytes = taken_bytes + size
  return true
end

local function count_taken(lane, number)
  count(lane, 'waiting', -number)
  count(lane, 'in_flight', number)
  lane.served = lane.served + number
  if lane.rate_count > 0 and number > 0 then
    local open = window_open(lane)
    set_switch(lane, 'window_began_at', open and lane.window_began_at or now)
    set_switch(lane, 'window_used', (open and lane.window_used or 0) + number)
  end
end

local function serve(turn)
  local lane = turn.lane
  while lane.consecutive < turn.quantum and turn.taken < turn.room do
    local stream = pick_stream(turn)
    if not stream or not offer(lane, stream.track, stream.head) then
      return
    end
    advance(stream)
    turn.taken, lane.consecutive, lane.last_track = turn.taken + 1, lane.consecutive + 1, stream.track
    turn.served = true
  end
end

local function take_turns()
  while not full and #ids < limit do
    local turn = next_turn(limit - #ids, quantum)
    if not turn then
      return
    end
    serve(turn)
    end_turn(turn, full)
  end
end

local function take_suspect()
  local tenant = redis.call('ZRANGE', root .. ':suspects', '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)[1]
  if not tenant or limit < 1 then
    return
  end
  local lane = touch(tenant)
  local key, list = ':suspect:' .. tenant, SUSPECT .. ':' .. tenant
  local element = redis.call('ZRANGE', root .. key, 0, 0)[1]
  local _, _, _, marks = struct.unpack(ELEMENT, element)
  if room_of(lane) > 0 and offer(lane, 1, element) then
    withdraw_later(key, list, element, marks)
    count(lane, 'suspects', -1)
    count_taken(lane, 1)
    lane.last_served_at = now
  end
end

local function charge(id, lane, track, packed)
  local item = packed and unpack_progress(id, packed)
  if not item then
    item = salvage_item(id, nil, lane.tenant, track, alone)
  end
  item.state, item.attempts = 'claimed', item.attempts + 1
  return pack_progress(item)
end

local function charge_tried()
  local tried_ids, records = {}, {}
  for index, one in ipairs(tried) do
    tried_ids[index] = one[1]
  end
  for index, packed in ipairs(get_all(root .. ':progress', tried_ids)) do
    records[2 * index - 1] = tried_ids[index]
    records[2 * index] = charge(tried_ids[index], tried[index][2], tried[index][3], packed)
  end
  call_all('HSET', root .. ':progress', records)
end

local function wake_timers()
  for _, tenant in ipairs(redis.call('ZRANGE', root .. ':timer', '-inf', now, 'BYSCORE', 'LIMIT', 0, WAKE)) do
    place_lane(touch(tenant))
  end
  write_noted()
end

local function find_next_at()
  local next_at = redis.call('EXISTS', root .. ':ring') == 1 and now or math.huge
  local suspects = redis.call('ZRANGE', root .. ':suspects', '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  next_at = math.min(next_at, head_score(':timer') or math.huge, tonumber(suspects[2] or math.huge))
  if next_at == math.huge then
    return -1
  end
  local used_up = rate_count > 0 and window_used >= rate_count
  return used_up and math.max(next_at, window_began_at + rate_period_ms) or next_at
end

local function write_batch()
  local pairs_of = {}
  charge_tried()
  for index, id in ipairs(ids) do
    held[index] = held[index] .. cut_head(frames[index])
    pairs_of[2 * index - 1], pairs_of[2 * index] = id, held[index]
  end
  write_lease(token, now + lease_ms, ids, pairs_of)
  window_used = window_used + #ids
  if rate_count > 0 then
    redis.call('HSET', root, 'window_began_at', window_began_at, 'window_used', window_used)
  end
end

-- Hints left over from work that is gone would only wake a worker for nothing.
local function pass_hint_on()
  if redis.call('EXISTS', root .. ':ring') == 0 then
    redis.call('DEL', root .. ':hint')
  elseif #ids > 0 and (rate_count == 0 or window_used < rate_count) then
    hint()
  end
end

local function hand_out_batch()
  wake_timers()
  if alone then
    take_suspect()
  else
    take_turns()
    close_streams(count_taken)
  end
  if #ids > 0 then
    frames = get_all(root .. ':messages', ids)
    write_batch()
  end
  save_lanes()
  pass_hint_on()
end

local paused = (redis.call('HGET', root, 'state') or 'running') ~= 'running'
if redis.call('EXISTS', lease_key(token)) == 1 then
  ids, held = list_held(token)
  frames = get_all(root .. ':messages', ids)
elseif not paused then
  hand_out_batch()
end
local suspects = redis.call('ZCOUNT', root .. ':suspects', '-inf', now) > 0 and not paused
return { now, suspects and 1 or 0, paused and -1 or find_next_at(), answer_batch(token, ids, held, frames) }
