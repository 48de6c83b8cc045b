-- root.lua: what every verb on a queue begins with.
--
-- KEYS 1  the queue's root, prefix:{queue}; every other key of the queue is derived from it
-- ARGV 1  skew in milliseconds, added to the server's clock (0 outside tests)
--
-- Keys below the root. T is a tenant, LIST a track (main, bulk, redrive) and a tenant, ID an id. An id that
-- is a canonical UUID lies as its 16 bytes (frames.py); an element is what element.lua says. Where a message's
-- bytes are tells its state.
--   (root)              hash    the queue's state, its ring, its counters, and the sums of its lanes
--   :messages           hash    id -> frame, of what waits and what is claimed
--   :letters            hash    id -> frame, of dead letters
--   :finished           hash    id -> ending, of what is done or removed (frame.lua)
--   :progress           hash    id -> progress, of what is not finished and no longer as it was accepted
--   :failures :redrives hash    id -> failures, re-drives, one after the other
--   :traces             hash    digest -> traceback
--   :trace_uses         hash    digest -> how many failures point to it
--   :children           hash    id of a parent -> how many of its children are open
--   :family:ID          zset    children of a message, in order of arrival
--   :keys               hash    tenant and dedupe key -> digest and id, of what is not finished
--   :keys:END           hash    the same of what is finished, with the instant; expires
--   :key_ends           zset    the instants END of the hashes above
--   :ready:LIST         list    elements that are due, in order
--   :later:LIST         zset    elements by due_at: delayed ones, and due ones that would break a list's order
--   :suspect:T          zset    elements of suspects by due_at
--   :scheduled          zset    ids of those in :later and :suspect that were never attempted, by due_at
--   :retrying           zset    ids of the others in them, by due_at
--   :gone               set     list and element, of elements that left a list from its middle
--   :oldest             zset    every ready list, by an instant that none of its elements was due before
--   :expiry             zset    every ready list, by expires_at in the same way; list and element of those not covered so
--   :held               hash    id -> who holds it and how (lease.lua)
--   :leases             zset    tokens by deadline
--   :lease:TOKEN        list    the ids that were handed out under a token, in order
--   :lease_counts       hash    token -> how many of them it still holds
--   :dead               zset    died_at and id of dead letters, in that order
--   :done               list    when and id of finished records of messages that were done, in order
--   :finished_order     zset    ids of the other finished records, by when they ended
--   :discarded          zset    ids of removed letters that keep their content, by when they were removed
--   :lanes              hash    tenant -> lane (lane.lua)
--   :tenants            zset    tenants by name
--   :ring               zset    lanes that may hand out now, by turn
--   :timer              zset    lanes that may later, by when
--   :suspects           zset    lanes whose suspects may run, by when the earliest one may
--   :hint               list    wake-up hints, bounded
--   :changes            zset    ids of dead letters by the number of their last change
--   :departed           zset    the latest ids that are dead no more, by number
--   :tally:OPERATION    hash    what was counted for an operation; expires
--   :tallies            zset    the operations for which something was counted, by when; expires

local root = KEYS[1]

local function integer(index)
  local value = tonumber(ARGV[index])
  if not value or value ~= math.floor(value) then
    error('argument ' .. index .. ' is not a whole number')
  end
  return value
end

local skew = integer(1)

local function read_clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + skew
end

local now = read_clock()

-- A command takes at most so many of a list at a time; even, so that pairs stay together.
local BATCH = 500

local function call_all(command, key, list)
  for first = 1, #list, BATCH do
    redis.call(command, key, unpack(list, first, math.min(first + BATCH - 1, #list)))
  end
end

-- The values of a hash's fields, false where there is none.
local function get_all(key, fields)
  if #fields > 0 and #fields <= BATCH then
    return redis.call('HMGET', key, unpack(fields))
  end
  local values = {}
  for first = 1, #fields, BATCH do
    local last = math.min(first + BATCH - 1, #fields)
    for _, value in ipairs(redis.call('HMGET', key, unpack(fields, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Changes of sorted sets and lists, noted while a verb goes and written together: what leaves first.
local leaving, entering, pushing = {}, {}, {}

local function note_push(key, element)
  local elements = pushing[key]
  if not elements then
    elements = {}
    pushing[key] = elements
  end
  elements[#elements + 1] = element
end

local function note_leaving(key, member)
  local members = leaving[key]
  if not members then
    members = {}
    leaving[key] = members
  end
  members[#members + 1] = member
end

local function note_entering(key, score, member)
  local pairs_of = entering[key]
  if not pairs_of then
    pairs_of = {}
    entering[key] = pairs_of
  end
  local last = #pairs_of
  pairs_of[last + 1], pairs_of[last + 2] = score, member
end

local function write_noted()
  for key, members in pairs(leaving) do
    call_all('ZREM', root .. key, members)
  end
  for key, pairs_of in pairs(entering) do
    call_all('ZADD', root .. key, pairs_of)
  end
  for key, elements in pairs(pushing) do
    call_all('RPUSH', root .. key, elements)
  end
  leaving, entering, pushing = {}, {}, {}
end

local HINTS = 4

-- Wakes one waiting worker; a bounded list, so hints nobody takes cost nothing.
local function hint()
  if redis.call('LLEN', root .. ':hint') < HINTS then
    redis.call('LPUSH', root .. ':hint', 1)
  end
end

local function list_ids(first)
  local ids = {}
  for index = first, #ARGV do
    ids[#ids + 1] = ARGV[index]
  end
  return ids
end
