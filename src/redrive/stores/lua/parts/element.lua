-- element.lua: where a waiting message stands.
-- Composed after: placement
--
-- An element is due_at, expires_at, the size of the body, marks, and the id: what a claim must know before it
-- takes a message. Marks: TRIED: its progress is in :progress; MARKED: it has an entry of its own in :expiry;
-- CHILD: it has a parent; RETRIED: it has been attempted. A ready list is in order of due_at and of
-- expires_at, give or take SLACK_MS (the clocks of submitters differ), so its head stands for all of it. What
-- would break the order of due_at stands in :later, though it is due; what would break that of expires_at
-- gets an entry of its own. So an expiry may be found SLACK_MS late.

local ELEMENT = '>I6I6I4B'
local ELEMENT_SIZE = 17
local SLACK_MS = 1000
local TRIED, MARKED, CHILD, RETRIED = 1, 2, 4, 8

local function id_of(element)
  return string.sub(element, ELEMENT_SIZE + 1)
end

local function list_of(track, tenant)
  return TRACKS[track] .. ':' .. tenant
end

-- The name of one element among all lists, as :expiry and :gone have it.
local function place_of(list, element)
  return list .. '\0' .. element
end

local function due_key(marks)
  return bit.band(marks, RETRIED) > 0 and ':retrying' or ':scheduled'
end

local function wait_later(key, list, id, marks, due_at, expires_at, size)
  local element = struct.pack(ELEMENT, due_at, expires_at, size, marks + MARKED) .. id
  note_entering(key, due_at, element)
  note_entering(due_key(marks), due_at, id)
  note_entering(':expiry', expires_at, place_of(list, element))
end

local function wait_ready(lane, track, id, marks, due_at, expires_at, size)
  local list, alone = list_of(track, lane.tenant), false
  local due, expires = LAST_DUE + track, LAST_EXPIRES + track
  if lane[READY + track] == 0 then
    note_entering(':oldest', due_at, list)
    note_entering(':expiry', expires_at, list)
    lane[due], lane[expires] = due_at, expires_at
  else
    alone = expires_at < lane[expires] - SLACK_MS
    lane[due], lane[expires] = math.max(lane[due], due_at), math.max(lane[expires], expires_at)
  end
  local element = struct.pack(ELEMENT, due_at, expires_at, size, alone and marks + MARKED or marks) .. id
  if alone then
    note_entering(':expiry', expires_at, place_of(list, element))
  end
  note_push(':ready:' .. list, element)
  lane[READY + track] = lane[READY + track] + 1
end

-- A lane that had nothing waiting begins to count the rounds it waits.
local function count_arrival(lane)
  if lane.waiting == 0 then
    lane.last_round = read_ring().round
  end
  count(lane, 'waiting', 1)
end

local function arrive(lane, track, id, marks, due_at, expires_at, size)
  count_arrival(lane)
  if due_at <= now and due_at >= lane[LAST_DUE + track] - SLACK_MS then
    wait_ready(lane, track, id, marks, due_at, expires_at, size)
  else
    wait_later(later_key(track, lane.tenant), list_of(track, lane.tenant), id, marks, due_at, expires_at, size)
    lane[LATER + track] = lane[LATER + track] + 1
  end
end

local function arrive_suspect(lane, id, marks, due_at, expires_at, size)
  count_arrival(lane)
  count(lane, 'suspects', 1)
  local list = SUSPECT .. ':' .. lane.tenant
  wait_later(':suspect:' .. lane.tenant, list, id, marks, due_at, expires_at, size)
end

local function forget_list(lane, track, list)
  note_leaving(':oldest', list)
  note_leaving(':expiry', list)
  lane[LAST_DUE + track], lane[LAST_EXPIRES + track] = 0, 0
end

-- After `taken` elements left a ready list at its head.
local function shorten(lane, track, taken)
  lane[READY + track] = lane[READY + track] - taken
  if lane[READY + track] == 0 then
    forget_list(lane, track, list_of(track, lane.tenant))
  end
end

-- Keeps a list's head one that really waits, so that a lane with a ready list has due work.
local function drop_gone(lane, track)
  local list = list_of(track, lane.tenant)
  local dropped = 0
  while dropped < lane[READY + track] do
    local head = redis.call('LINDEX', root .. ':ready:' .. list, 0)
    if not head or redis.call('SREM', root .. ':gone', place_of(list, head)) == 0 then
      break
    end
    redis.call('LPOP', root .. ':ready:' .. list)
    dropped = dropped + 1
  end
  if dropped > 0 then
    shorten(lane, track, dropped)
  end
end

-- Takes an element out of a sorted set; false when it is not there.
local function withdraw_later(key, list, element, marks)
  if redis.call('ZREM', root .. key, element) == 0 then
    return false
  end
  redis.call('ZREM', root .. due_key(marks), id_of(element))
  redis.call('ZREM', root .. ':expiry', place_of(list, element))
  return true
end

-- From the middle of a list an element leaves by being called gone.
local function withdraw_ready(lane, track, plain, marked)
  local list = list_of(track, lane.tenant)
  local alone = redis.call('ZREM', root .. ':expiry', place_of(list, marked)) == 1
  redis.call('SADD', root .. ':gone', place_of(list, alone and marked or plain))
  drop_gone(lane, track)
end

local function withdraw(lane, track, suspect, id, marks, due_at, expires_at, size)
  local marked = struct.pack(ELEMENT, due_at, expires_at, size, marks + MARKED) .. id
  if suspect then
    withdraw_later(':suspect:' .. lane.tenant, SUSPECT .. ':' .. lane.tenant, marked, marks)
    count(lane, 'suspects', -1)
  elseif lane[LATER + track] > 0
    and withdraw_later(later_key(track, lane.tenant), list_of(track, lane.tenant), marked, marks) then
    lane[LATER + track] = lane[LATER + track] - 1
  else
    withdraw_ready(lane, track, struct.pack(ELEMENT, due_at, expires_at, size, marks) .. id, marked)
  end
  count(lane, 'waiting', -1)
end
