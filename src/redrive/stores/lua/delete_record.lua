#!lua flags=allow-oom
-- delete_record: delete a record when its version is the expected one.
-- Composed after: record
--
-- KEYS 1  the kind's root
-- ARGV 1  skew    ARGV 2  id    ARGV 3  expected version, -1 for any
-- Returns { 1, 1 } when deleted, { 1, 0 } when there was none, { 0, version found } when it is another

local id, expected = ARGV[2], tonumber(ARGV[3])
local record = read_record(id)
if record and expected >= 0 and expected ~= record.version then
  return { 0, record.version }
end
redis.call('DEL', record_key(id))
redis.call('ZREM', root, id)
return { 1, record and 1 or 0 }
