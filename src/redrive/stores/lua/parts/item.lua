-- item.lua: one message as the verbs handle it, its progress and its state.
-- Composed after: element, frame
--
-- An item has what core.message.Progress has, and what is needed to find its places. Of a message that is as
-- it was accepted all of it follows from its frame; progress is written once something differs (`tried`). The
-- fields of a progress record are those of packing.StoredProgress, in that order; empty text and 0 stand for
-- none.

local SALVAGED_TTL_MS = 86400000

local function pack_progress(item)
  return cmsgpack.pack({
    item.state, item.tenant, item.track, item.due_at, item.expires_at, item.attempts, item.crashes, item.generation,
    item.size, item.ttl_ms, item.operation, item.judged, item.damaged, item.reason, item.fingerprint, item.died_at,
    item.finished_at, item.move, item.actor,
  })
end

local function new_item(id, tenant, track, due_at, expires_at, size, ttl_ms)
  return {
    id = id, state = 'waiting', tenant = tenant, track = track, due_at = due_at, expires_at = expires_at,
    attempts = 0, crashes = 0, generation = 0, size = size, ttl_ms = ttl_ms, operation = '', judged = false,
    damaged = false, reason = '', fingerprint = '', died_at = 0, finished_at = 0, move = '', actor = '',
  }
end

local function is_progress(fields)
  if type(fields) ~= 'table' or #fields < 19 or type(fields[2]) ~= 'string' or not TRACKS[fields[3]] then
    return false
  end
  for index = 4, 10 do
    if type(fields[index]) ~= 'number' then
      return false
    end
  end
  return true
end

local function unpack_progress(id, packed)
  local readable, fields = pcall(cmsgpack.unpack, packed)
  if not readable or not is_progress(fields) then
    return nil
  end
  return {
    id = id, state = fields[1], tenant = fields[2], track = fields[3], due_at = fields[4], expires_at = fields[5],
    attempts = fields[6], crashes = fields[7], generation = fields[8], size = fields[9], ttl_ms = fields[10],
    operation = fields[11], judged = fields[12], damaged = fields[13], reason = fields[14],
    fingerprint = fields[15], died_at = fields[16], finished_at = fields[17], move = fields[18], actor = fields[19],
    tried = true,
  }
end

-- Nil when what is there cannot be read.
local function make_item(id, frame, packed)
  local head = read_head(frame)
  local item
  if packed then
    item = unpack_progress(id, packed)
  elseif head then
    item = new_item(id, head.tenant, head.track, head.due_at, head.expires_at, head.size, head.ttl_ms)
  end
  if item then
    item.frame, item.head = frame or '', head
    item.parent, item.field = head and head.parent, head and head.field
  end
  return item
end

-- What stands in for what cannot be read: enough to hand the message out and bury it.
local function salvage_item(id, frame, tenant, track, suspect)
  local item = new_item(id, tenant, track, now, now, 0, SALVAGED_TTL_MS)
  item.frame, item.tried, item.damaged, item.crashes = frame or '', true, true, suspect and 1 or 0
  return item
end

local function marks_of(item)
  return (item.tried and TRIED or 0) + (item.parent and CHILD or 0) + (item.attempts > 0 and RETRIED or 0)
end

local function write_progress(item)
  redis.call('HSET', root .. ':progress', item.id, pack_progress(item))
end

-- A message that waits, or nil when the id is not waiting or cannot be read; claim hands the latter out.
local function read_waiting(id)
  local frame = redis.call('HGET', root .. ':messages', id)
  if not frame or redis.call('HEXISTS', root .. ':held', id) == 1 then
    return nil
  end
  return make_item(id, frame, redis.call('HGET', root .. ':progress', id))
end

-- Back to waiting, as what the item now says; the frame is in :messages.
local function enter_waiting(item)
  local lane = touch(item.tenant)
  item.state, item.tried = 'waiting', true
  write_progress(item)
  if item.crashes > 0 then
    arrive_suspect(lane, item.id, marks_of(item), item.due_at, item.expires_at, item.size)
  else
    arrive(lane, item.track, item.id, marks_of(item), item.due_at, item.expires_at, item.size)
  end
end

local function leave_waiting(item)
  local suspect = item.crashes > 0
  withdraw(touch(item.tenant), item.track, suspect, item.id, marks_of(item), item.due_at, item.expires_at, item.size)
end

local function state_of_ending(ending)
  local _, progress = open_ending(ending)
  local item = progress ~= '' and unpack_progress('', progress)
  return item and item.state or 'done'
end

-- The state of each id, false for an unknown one.
local function find_states(ids)
  local messages, letters = get_all(root .. ':messages', ids), get_all(root .. ':letters', ids)
  local endings, states = get_all(root .. ':finished', ids), {}
  for index = 1, #ids do
    if messages[index] then
      local held = redis.call('HEXISTS', root .. ':held', ids[index]) == 1
      states[index] = held and 'claimed' or 'waiting'
    elseif letters[index] then
      states[index] = 'dead'
    else
      states[index] = endings[index] and state_of_ending(endings[index])
    end
  end
  return states
end
