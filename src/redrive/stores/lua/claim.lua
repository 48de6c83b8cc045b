#!lua flags=allow-oom
-- claim: hand out due messages, fairly over tenants unless told otherwise, attempt + 1, under a token.
-- Composed after: idle, by_due
--
-- KEYS 1  the queue's root
-- ARGV 1  skew           ARGV 2  token         ARGV 3  limit
-- ARGV 4  lease in ms    ARGV 5  most bytes    ARGV 6  quantum
-- ARGV 7  rate: hand-outs a period, 0 for no limit         ARGV 8  rate: period in ms
-- ARGV 9  1: one suspect and nothing else, 0: no suspects
-- ARGV 10 1: tenants take turns, 0: what is due first comes first
-- Returns { now, suspects wait (1 or 0), next_at or -1, batch as lease.answer_batch says }

local WAKE = 200

local token, limit, lease_ms = ARGV[2], integer(3), integer(4)
local most_bytes, quantum = integer(5), integer(6)
local alone = integer(9) == 1
local queue = { rate_count = integer(7), rate_period_ms = integer(8), window_began_at = 0, window_used = 0 }

local ids, held, frames, tried = {}, {}, {}, {}
local taken_bytes = 0
local row_lane, in_a_row = nil, 0

if queue.rate_count > 0 then
  local left, window = nil, redis.call('HMGET', root, 'window_began_at', 'window_used')
  queue.window_began_at, queue.window_used = tonumber(window[1] or 0), tonumber(window[2] or 0)
  queue.window_began_at, queue.window_used, left = rules.reserve(queue, now)
  limit = math.min(limit, left)
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
    return false
  end
  ids[number + 1], held[number + 1] = id, held_value(lane, track, marks)
  if marks > 0 and bit.band(marks, TRIED) > 0 then
    tried[#tried + 1] = { id = id, lane = lane, track = track }
  end
  taken_bytes = taken_bytes + size
  row_lane, in_a_row = lane, lane == row_lane and in_a_row + 1 or 1
  return true
end

local function count_taken(lane, number)
  if number == 0 then
    return
  end
  count(lane, 'waiting', -number)
  count(lane, 'in_flight', number)
  lane.served, lane.last_served_at = lane.served + number, now
  if lane.rate_count > 0 then
    local began_at, used = rules.reserve(lane, now)
    set_switch(lane, 'window_began_at', began_at)
    set_switch(lane, 'window_used', used + number)
  end
end

local walk = { head = pick_stream, go_behind = go_behind, leave = leave_line, ring = read_ring }

function walk.front()
  return #ids < limit and next_turn(limit - #ids, quantum) or nil
end

function walk.take(turn, stream)
  if not offer(turn.lane, stream.track, stream.head) then
    return false
  end
  turn.lane.last_track = stream.track
  advance(stream)
  return true
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
  if rules.room_of(lane, now) > 0 and offer(lane, 1, element) then
    withdraw_later(key, list, element, marks)
    count(lane, 'suspects', -1)
    count_taken(lane, 1)
  end
end

local function charge(one, packed)
  local item = packed and unpack_progress(one.id, packed)
    or salvage_item(one.id, nil, one.lane.tenant, one.track, alone)
  item.state, item.attempts = 'claimed', item.attempts + 1
  return pack_progress(item)
end

local function charge_tried()
  local tried_ids, records = {}, {}
  for index, one in ipairs(tried) do
    tried_ids[index] = one.id
  end
  for index, packed in ipairs(get_all(root .. ':progress', tried_ids)) do
    records[2 * index - 1], records[2 * index] = tried_ids[index], charge(tried[index], packed)
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
  return math.max(next_at, rules.free_at(queue))
end

-- How many messages the lane that was served last was handed out in a row, whatever its turns and claims were.
local function count_in_a_row()
  if in_a_row == #ids then
    in_a_row = in_a_row + in_a_row_of(row_lane)
  end
  redis.call('HSET', root, 'last_tenant', row_lane.tenant, 'in_a_row', in_a_row)
end

local function write_batch()
  local pairs_of = {}
  charge_tried()
  for index, id in ipairs(ids) do
    held[index] = held[index] .. cut_head(frames[index])
    pairs_of[2 * index - 1], pairs_of[2 * index] = id, held[index]
  end
  write_lease(token, now + lease_ms, ids, pairs_of)
  count_in_a_row()
  queue.window_used = queue.window_used + #ids
  if queue.rate_count > 0 then
    redis.call('HSET', root, 'window_began_at', queue.window_began_at, 'window_used', queue.window_used)
  end
end

-- Hints left over from work that is gone would only wake a worker for nothing.
local function pass_hint_on()
  if redis.call('EXISTS', root .. ':ring') == 0 then
    redis.call('DEL', root .. ':hint')
  elseif #ids > 0 and (queue.rate_count == 0 or queue.window_used < queue.rate_count) then
    hint()
  end
end

local function hand_out_batch()
  wake_timers()
  if alone then
    take_suspect()
  else
    if integer(10) == 1 then
      rules.take_turns(walk)
    else
      take_by_due(walk.take, limit, quantum)
    end
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
