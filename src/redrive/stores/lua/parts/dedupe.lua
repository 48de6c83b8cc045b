-- dedupe.lua: dedupe keys.
-- Composed after: root
--
-- The field is tenant, a zero byte, key; the value 14 bytes of digest and the id. With the end of its message
-- a key moves into a hash of keys that end within the same quarter of the time they are kept: it goes as a
-- whole by its TTL. The exact instant stands before the value, and decides.

local DIGEST_SIZE = 14
local ENDS_SIZE = 6
local SPARE_MS = 3600000

-- { digest, id } that a stored value stands for.
local function open_key(value)
  return string.sub(value, 1, DIGEST_SIZE), string.sub(value, DIGEST_SIZE + 1)
end

-- The hashes of finished messages' keys that have not ended, by their instants.
local function list_ends()
  return redis.call('ZRANGE', root .. ':key_ends', '(' .. now, '+inf', 'BYSCORE')
end

-- The values of fields, false where a key is free or has ended.
local function find_keys(fields)
  local values = get_all(root .. ':keys', fields)
  for _, ends in ipairs(#fields > 0 and list_ends() or {}) do
    for index, value in ipairs(get_all(root .. ':keys:' .. ends, fields)) do
      if value and not values[index] and struct.unpack('>I6', value) > now then
        values[index] = string.sub(value, ENDS_SIZE + 1)
      end
    end
  end
  return values
end

local function free_key(id, field)
  local value = field and redis.call('HGET', root .. ':keys', field)
  if value and select(2, open_key(value)) == id then
    redis.call('HDEL', root .. ':keys', field)
  end
end

local function shelve_keys(pairs_of, kept_ms)
  local width = math.max(1, math.ceil(kept_ms / 4))
  local ends = string.format('%.0f', math.ceil((now + kept_ms) / width) * width)
  local key = root .. ':keys:' .. ends
  call_all('HSET', key, pairs_of)
  if redis.call('ZADD', root .. ':key_ends', ends, ends) == 1 then
    -- Cleanup comes first, and frees in the background; this is for a queue that nobody looks after any more.
    redis.call('PEXPIREAT', key, string.format('%.0f', math.max(ends, ends - skew) + SPARE_MS))
  end
end

-- Keys of messages that are done; `fields` and `ids` in step.
local function end_keys(fields, ids, kept_ms)
  local leaving_fields, shelved = {}, {}
  local ends_at = struct.pack('>I6', now + kept_ms)
  for index, value in ipairs(get_all(root .. ':keys', fields)) do
    if value and select(2, open_key(value)) == ids[index] then
      leaving_fields[#leaving_fields + 1] = fields[index]
      shelved[#shelved + 1], shelved[#shelved + 2] = fields[index], ends_at .. value
    end
  end
  call_all('HDEL', root .. ':keys', leaving_fields)
  if kept_ms > 0 and #shelved > 0 then
    shelve_keys(shelved, kept_ms)
  end
end
