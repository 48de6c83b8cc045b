#!lua flags=allow-oom
-- put_record: write a record when its version is the expected one. Allowed when memory is full: whoever makes
-- room needs a record of it.
-- Composed after: record
--
-- KEYS 1  the kind's root
-- ARGV 1  skew    ARGV 2  id    ARGV 3  document
-- ARGV 4  expected version, 0 for none, -1 for any
-- ARGV 5  time to live in ms, -1 for ever
-- Returns { 1, new version }, or { 0, version found } and nothing is written

local id, expected, ttl_ms = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local record = read_record(id)
local found = record and record.version or 0
if expected >= 0 and expected ~= found then
  return { 0, found }
end

local key = record_key(id)
redis.call('ZADD', root, 0, id)
redis.call('DEL', key)
redis.call('HSET', key, 'version', found + 1, 'document', ARGV[3])
if ttl_ms >= 0 then
  local expires_at = now + ttl_ms
  redis.call('HSET', key, 'expires_at', expires_at)
  -- The server's own expiry only frees memory; expires_at decides, on the skewed clock too.
  redis.call('PEXPIREAT', key, math.max(expires_at, expires_at - skew) + 1000)
end
return { 1, found + 1 }
