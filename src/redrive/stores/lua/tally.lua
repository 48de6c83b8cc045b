#!lua flags=no-writes
-- tally: what a queue counted for an operation.
-- Composed after: root
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  operation
-- Returns { moved, passed, failed, done, dead, removed }

local found = redis.call('HMGET', root .. ':tally:' .. ARGV[2], 'moved', 'passed', 'failed', 'done', 'dead', 'removed')
local counts = {}
for index = 1, 6 do
  counts[index] = tonumber(found[index] or 0)
end
return counts
