#!lua flags=allow-oom
-- write_journal: add a row after the expected head. A journal is a stream whose ids are positions. Allowed
-- when memory is full: what makes room is audited too.
-- Composed after: record
--
-- KEYS 1  the journal's key
-- ARGV 1  skew    ARGV 2  document    ARGV 3  expected head, -1 for any
-- Returns { 1, position }, or { 0, head found } and nothing is written

local expected = tonumber(ARGV[3])
local last = redis.call('XREVRANGE', root, '+', '-', 'COUNT', 1)[1]
local head = last and tonumber(string.match(last[1], '^%d+')) or 0
if expected >= 0 and expected ~= head then
  return { 0, head }
end
redis.call('XADD', root, string.format('%.0f-0', head + 1), 'at', now, 'document', ARGV[2])
return { 1, head + 1 }
