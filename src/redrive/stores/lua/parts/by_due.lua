-- by_due.lua: what a claim hands out where tenants do not take turns: the earliest due message of all lanes comes first.
-- Composed after: walk
--
-- The heads of all lanes in the ring are looked at, so a claim costs more with each tenant that has due work. Pauses, holds, caps
-- and rates keep a lane out of the ring or bound its room, as ever; its turn stays what it is.

local function earliest(turn)
  local found, found_at = nil, math.huge
  for track = 1, turn.taken < turn.room and #TRACKS or 0 do
    local stream = turn.streams[track]
    local due_at = stream and head_of(stream) and struct.unpack('>I6', stream.head) or math.huge
    if due_at < found_at then
      found, found_at = stream, due_at
    end
  end
  return found, found_at
end

-- When the earliest message of a lane is due, told from the heads of its lists without opening them.
local function head_at(lane)
  local due_at = math.huge
  for track = 1, #TRACKS do
    if lane[READY + track] > 0 then
      local head = redis.call('LINDEX', root .. ':ready:' .. list_of(track, lane.tenant), 0)
      due_at = math.min(due_at, head and struct.unpack('>I6', head) or math.huge)
    end
    if lane[LATER + track] > 0 then
      due_at = math.min(due_at, head_score(later_key(track, lane.tenant)) or math.huge)
    end
  end
  return due_at
end

-- The lanes in the ring by their earliest message, of equal ones in the order of the ring. One that has nothing due is
-- touched, so that it is placed again.
local function sort_ring(quantum)
  local heads = {}
  ring_size = redis.call('ZCARD', root .. ':ring')
  while loaded < ring_size do
    read_ring_on(BATCH * quantum, quantum)
  end
  for place, tenant in ipairs(line) do
    local due_at = head_at(lanes[tenant])
    if due_at <= now then
      heads[#heads + 1] = { tenant = tenant, due_at = due_at, place = place }
    else
      touch(tenant)
    end
  end
  table.sort(heads, function(one, other)
    return one.due_at < other.due_at or (one.due_at == other.due_at and one.place < other.place)
  end)
  return heads
end

-- The lanes that may be needed for `wanted` messages, opened, in order.
local function open_line(wanted, quantum)
  local entries = {}
  for index, head in ipairs(sort_ring(quantum)) do
    if index > wanted then
      break
    end
    local turn = open_turn(head.tenant, wanted, quantum)
    local stream, due_at = earliest(turn)
    if stream then
      entries[#entries + 1] = { turn = turn, stream = stream, due_at = due_at }
    end
  end
  return entries
end

-- Puts the first entry where it belongs now; the others are in order.
local function sink(entries, first)
  local entry, at = entries[first], first
  while entries[at + 1] and entries[at + 1].due_at < entry.due_at do
    entries[at], at = entries[at + 1], at + 1
  end
  entries[at] = entry
end

local function take_by_due(take, wanted, quantum)
  local entries, first = open_line(wanted, quantum), 1
  while entries[first] do
    local entry = entries[first]
    local turn = entry.turn
    if not take(turn, entry.stream) then
      return
    end
    turn.taken, turn.lane.last_round = turn.taken + 1, read_ring().round
    entry.stream, entry.due_at = earliest(turn)
    if entry.stream then
      sink(entries, first)
    else
      first = first + 1
    end
  end
end
