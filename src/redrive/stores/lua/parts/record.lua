-- record.lua: what the verbs on records and journals begin with.
--
-- KEYS 1  the root of a kind of records or of a journal, in a slot of its own
-- ARGV 1  skew in milliseconds, added to the server's clock (0 outside tests)

local root = KEYS[1]
local skew = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + skew

-- A record is a hash at root:r:ID (version, document, expires_at), its id in the sorted set at the root.
local function record_key(id)
  return root .. ':r:' .. id
end

-- Nil when there is none or it has expired.
local function read_record(id)
  local found = redis.call('HMGET', record_key(id), 'version', 'document', 'expires_at')
  local version, document, expires_at = found[1], found[2], found[3]
  if not version or (expires_at and tonumber(expires_at) <= now) then
    return nil
  end
  return { version = tonumber(version), document = document }
end
