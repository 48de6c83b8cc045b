#!lua flags=allow-oom
-- extend: prolong leases that are still held.
-- Composed after: root
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2     lease in ms, from now
-- ARGV 3...  tokens
-- Returns    the tokens that hold nothing any more

local until_at = now + integer(2)
local lost = {}
for index = 3, #ARGV do
  if redis.call('ZSCORE', root .. ':leases', ARGV[index]) then
    redis.call('ZADD', root .. ':leases', until_at, ARGV[index])
  else
    lost[#lost + 1] = ARGV[index]
  end
end
return lost
