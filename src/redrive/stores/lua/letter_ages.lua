#!lua flags=no-writes
-- letter_ages: how many of a queue's dead letters died at or before each of some instants.
-- Composed after: root
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  and on: the instants
-- Returns a count for each

local counts = {}
for index = 2, #ARGV do
  local after = '(' .. struct.pack('>I6', math.max(0, integer(index)) + 1)
  counts[index - 1] = redis.call('ZLEXCOUNT', root .. ':dead', '-', after)
end
return counts
