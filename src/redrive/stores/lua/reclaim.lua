#!lua flags=allow-oom
-- reclaim: take over expired leases (lapse lost) and waiting messages past their time to live (lapse
-- expired), under a new token. A live lease is never touched.
-- Composed after: lease
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  token    ARGV 3  lease in ms    ARGV 4  limit
-- Returns the batch as lease.answer_batch says
--
-- The server's clock may be set. Workers come here about once a second, so a gap since the last look is a clock that
-- was set, or workers that were away: then a lease that was alive at the last look keeps what it had left. Where the
-- clock went back, a lease that was not extended since is cut to one lease from now.
--
-- For the same reason a hint that was lost, with the worker that took it, is given again here.

local PAGE, LOOKS, GAP_MS = 100, 1000, 5000

local token, lease_ms, limit = ARGV[2], integer(3), integer(4)
local ids, held, values = {}, {}, {}

local function take_over(id, marks, track, tenant, head)
  local value = pack_held(marks, track, tenant, token) .. head
  ids[#ids + 1], values[#values + 1] = id, value
  held[#held + 1], held[#held + 2] = id, value
end

-- What was reclaimed as expired never ran: whoever loses it again has crashed on nothing.
local function take_lease(old)
  local old_ids, old_values = list_held(old)
  local taken = math.min(#old_ids, limit - #ids)
  for index = 1, taken do
    local marks, track, tenant, head = read_held(old_values[index], old)
    local kept = bit.band(marks, TRIED + CHILD + CHARGED)
    take_over(old_ids[index], kept + (bit.band(marks, EXPIRED) > 0 and EXPIRED or LOST), track, tenant, head)
  end
  let_go(old, taken)
end

local function take_expired(lane, track, element)
  local _, _, _, marks = struct.unpack(ELEMENT, element)
  count(lane, 'waiting', -1)
  count(lane, 'in_flight', 1)
  local id = id_of(element)
  local head = cut_head(redis.call('HGET', root .. ':messages', id))
  take_over(id, bit.band(marks, TRIED + CHILD) + EXPIRED, track, lane.tenant, head)
end

local function track_of(name)
  for track, known in ipairs(TRACKS) do
    if known == name then
      return track
    end
  end
  return nil
end

-- The head of a ready list, when it has expired; otherwise the list waits for it.
local function expired_head(list)
  local head = redis.call('LINDEX', root .. ':ready:' .. list, 0)
  local expires_at = head and select(2, struct.unpack(ELEMENT, head))
  if not head then
    redis.call('ZREM', root .. ':expiry', list)
  elseif expires_at > now then
    redis.call('ZADD', root .. ':expiry', expires_at, list)
  end
  return head and expires_at <= now and head
end

local function take_list(list, tenant, track)
  local element = expired_head(list)
  while element do
    local lane = touch(tenant)
    redis.call('LPOP', root .. ':ready:' .. list)
    redis.call('ZREM', root .. ':expiry', place_of(list, element))
    take_expired(lane, track, element)
    shorten(lane, track, 1)
    drop_gone(lane, track)
    element = #ids < limit and expired_head(list)
  end
end

local function take_element(list, lane, track, element)
  local _, _, _, marks = struct.unpack(ELEMENT, element)
  redis.call('ZREM', root .. ':expiry', place_of(list, element))
  if not track then
    withdraw_later(':suspect:' .. lane.tenant, list, element, marks)
    count(lane, 'suspects', -1)
  elseif withdraw_later(later_key(track, lane.tenant), list, element, marks) then
    lane[LATER + track] = lane[LATER + track] - 1
  else
    redis.call('SADD', root .. ':gone', place_of(list, element))
    drop_gone(lane, track)
  end
  take_expired(lane, track or 1, element)
end

local function take_place(place)
  local list, element = place, nil
  local zero = string.find(place, '\0', 1, true)
  if zero then
    list, element = string.sub(place, 1, zero - 1), string.sub(place, zero + 1)
  end
  local name, tenant = string.match(list, '^(%a+):(.*)$')
  if element then
    take_element(list, touch(tenant), track_of(name), element)
  else
    take_list(list, tenant, track_of(name))
  end
end

-- An element that an earlier step of the same call has taken is gone from :expiry. Returns how many places it
-- looked at: a list that stood for a head long gone is put right, and leaves room for others.
local function take_places()
  local places = redis.call('ZRANGE', root .. ':expiry', '-inf', now, 'BYSCORE', 'LIMIT', 0, PAGE)
  for _, place in ipairs(places) do
    if #ids < limit and redis.call('ZSCORE', root .. ':expiry', place) then
      take_place(place)
    end
  end
  write_noted()
  return #places
end

local function take_expired_ones()
  local looks, found = 0, 1
  while #ids < limit and found > 0 and looks < LOOKS do
    found = take_places()
    looks = looks + found
  end
end

local function move_leases(first, last, moved_at)
  local leases = redis.call('ZRANGE', root .. ':leases', first, last, 'BYSCORE', 'WITHSCORES')
  local moved = {}
  for index = 1, #leases, 2 do
    local ends_at = tonumber(leases[index + 1])
    moved[index], moved[index + 1] = string.format('%.0f', moved_at(ends_at)), leases[index]
  end
  call_all('ZADD', root .. ':leases', moved)
end

-- By the server's own clock: what a test adds to it is time that passes.
local function look_at_clock()
  local clock = now - skew
  local seen = tonumber(redis.call('HGET', root, 'seen') or clock)
  local gap = clock - seen
  if gap > GAP_MS then
    move_leases('(' .. now - gap, now, function(ends_at) return ends_at + gap end)
  elseif gap < -GAP_MS then
    move_leases('(' .. now - gap, '+inf', function(ends_at) return math.max(ends_at + gap, now + lease_ms) end)
  end
  if redis.call('EXISTS', root) == 1 then
    redis.call('HSET', root, 'seen', string.format('%.0f', clock))
  end
end

local function is_due(key)
  return (head_score(key) or math.huge) <= now
end

local function hint_again()
  local running = (redis.call('HGET', root, 'state') or 'running') == 'running'
  if running and (redis.call('EXISTS', root .. ':ring') == 1 or is_due(':timer') or is_due(':suspects')) then
    hint()
  end
end

local function sweep()
  look_at_clock()
  for _, old in ipairs(redis.call('ZRANGE', root .. ':leases', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)) do
    if #ids < limit then
      take_lease(old)
    end
  end
  take_expired_ones()
  if #ids > 0 then
    write_lease(token, now + lease_ms, ids, held)
  end
  if #touched > 0 then
    save_lanes()
  end
  hint_again()
end

if redis.call('EXISTS', lease_key(token)) == 1 then
  ids, values = list_held(token)
else
  sweep()
end
return answer_batch(token, ids, values, get_all(root .. ':messages', ids))
