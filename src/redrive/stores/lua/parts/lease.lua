-- lease.lua: who holds what.
-- Composed after: item
--
-- A lease is a token with a deadline and the ids handed out under it; it ends with the last of them. :held
-- says of each claimed id: marks, track, tenant, token, and the head of its frame. Marks: TRIED and CHILD as
-- of an element; CHARGED: an attempt was counted; PROBE: its lane was held; LOST, EXPIRED: why `reclaim` took
-- it over.

local HELD = '>BBBc0I2c0'
local CHARGED, PROBE, LOST, EXPIRED = 16, 32, 64, 128

local function lease_key(token)
  return root .. ':lease:' .. token
end

-- The head of the frame is to be put behind it.
local function pack_held(marks, track, tenant, token)
  return struct.pack(HELD, marks, track, #tenant, tenant, #token, token)
end

-- Marks, track, tenant and head of what a token holds; nil when the id is not held by it.
local function read_held(value, token)
  if not value then
    return nil
  end
  local marks, track, tenant, holder, ends = struct.unpack(HELD, value)
  if holder ~= token then
    return nil
  end
  return marks, track, tenant, string.sub(value, ends)
end

-- `held` is ids and their values in turn.
local function write_lease(token, until_at, ids, held)
  call_all('HSET', root .. ':held', held)
  call_all('RPUSH', lease_key(token), ids)
  redis.call('HINCRBY', root .. ':lease_counts', token, #ids)
  redis.call('ZADD', root .. ':leases', until_at, token)
end

local function let_go(token, number)
  if redis.call('HINCRBY', root .. ':lease_counts', token, -number) <= 0 then
    redis.call('HDEL', root .. ':lease_counts', token)
    redis.call('ZREM', root .. ':leases', token)
    redis.call('DEL', lease_key(token))
  end
end

-- The ids that a token still holds and their values, in hand-out order.
local function list_held(token)
  local ids, held = {}, {}
  local given = redis.call('LRANGE', lease_key(token), 0, -1)
  for index, value in ipairs(get_all(root .. ':held', given)) do
    if read_held(value, token) then
      ids[#ids + 1], held[#held + 1] = given[index], value
    end
  end
  return ids, held
end

-- The item that is held, with what its lease says; never nil. Its frame is only the head.
local function held_item(id, marks, track, tenant, head)
  local packed = bit.band(marks, TRIED) > 0 and (redis.call('HGET', root .. ':progress', id) or '') or nil
  local item = make_item(id, head, packed) or salvage_item(id, head, tenant, track, false)
  if not item.tried and bit.band(marks, CHARGED) > 0 then
    item.attempts = 1
  end
  item.state, item.charged = 'claimed', bit.band(marks, CHARGED) > 0
  item.lapsed = bit.band(marks, LOST + EXPIRED) > 0
  return item
end

local function read_parents(frames, held)
  local parents, seen = {}, {}
  for index, value in ipairs(held) do
    local head = bit.band(string.byte(value), CHILD) > 0 and read_head(frames[index])
    if head and head.parent and not seen[head.parent] then
      seen[head.parent] = true
      parents[#parents + 1], parents[#parents + 2] = head.parent, find_frame(head.parent)
    end
  end
  return parents
end

local function read_tried(ids, held)
  local tried = {}
  for index, value in ipairs(held) do
    if bit.band(string.byte(value), TRIED) > 0 then
      tried[#tried + 1] = ids[index]
    end
  end
  local progress = {}
  for index, packed in ipairs(get_all(root .. ':progress', tried)) do
    progress[#progress + 1], progress[#progress + 2] = tried[index], packed
  end
  return progress
end

-- { until_at, { id, frame, held, ... }, { id, its progress, ... } of those that were tried, { parent, its
-- frame, ... } }, each parent once; until_at is 0 when the token holds nothing.
local function answer_batch(token, ids, held, frames)
  local batch = {}
  for index, id in ipairs(ids) do
    local last = #batch
    batch[last + 1], batch[last + 2], batch[last + 3] = id, frames[index], held[index]
  end
  local until_at = tonumber(redis.call('ZSCORE', root .. ':leases', token) or 0)
  return { until_at, batch, read_tried(ids, held), read_parents(frames, held) }
end
