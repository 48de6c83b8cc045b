-- item.lua: one message as the verbs handle it, its progress and its state.
-- Composed after: element, frame
--
-- An item has what core.message.Progress has, and what is needed to find its places. Of a message that is as
-- it was accepted all of it follows from its frame; progress is written once something differs (`tried`). Empty
-- text and 0 stand for none.

local SALVAGED_TTL_MS = 86400000

-- A progress record, as packed.StoredProgress has it; an older one lacks the last field.
local PROGRESS = {
  'state', 'tenant', 'track', 'due_at', 'expires_at', 'attempts', 'crashes', 'generation', 'size', 'ttl_ms',
  'operation', 'judged', 'damaged', 'reason', 'fingerprint', 'died_at', 'finished_at', 'move', 'actor',
  'first_died_at',
}

local function pack_progress(item)
  local fields = {}
  for index, name in ipairs(PROGRESS) do
    fields[index] = item[name]
  end
  return cmsgpack.pack(fields)
end

local function new_item(id, tenant, track, due_at, expires_at, size, ttl_ms)
  return {
    id = id, state = 'waiting', tenant = tenant, track = track, due_at = due_at, expires_at = expires_at,
    attempts = 0, crashes = 0, generation = 0, size = size, ttl_ms = ttl_ms, operation = '', judged = false,
    damaged = false, reason = '', fingerprint = '', died_at = 0, finished_at = 0, move = '', actor = '',
    first_died_at = 0,
  }
end

local function unpack_progress(id, packed)
  local readable, fields = pcall(cmsgpack.unpack, packed)
  if not readable or type(fields) ~= 'table' or #fields < #PROGRESS - 1 then
    return nil
  end
  local item = { id = id, tried = true }
  for index, name in ipairs(PROGRESS) do
    item[name] = fields[index]
  end
  item.first_died_at = item.first_died_at or item.died_at
  for _, name in ipairs({
    'due_at', 'expires_at', 'attempts', 'crashes', 'generation', 'size', 'ttl_ms', 'first_died_at',
  }) do
    if type(item[name]) ~= 'number' then
      return nil
    end
  end
  return type(item.tenant) == 'string' and TRACKS[item.track] and item or nil
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
