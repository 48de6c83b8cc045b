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

-- { version, document }, or nil when there is none or it has expired.
local function read_record(id)
  local record = redis.call('HMGET', record_key(id), 'version', 'document', 'expires_at')
  if not record[1] or (record[3] and tonumber(record[3]) <= now) then
    return nil
  end
  return { tonumber(record[1]), record[2] }
end
