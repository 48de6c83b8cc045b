#!lua flags=allow-oom
-- cleanup: remove a page of finished records, of what people discarded or replaced, and of ended dedupe keys;
-- never a dead letter, nor a parent with open children, nor a child of a parent that is not settled.
-- Composed after: ending
--
-- KEYS 1  the queue's root
-- ARGV 1  skew
-- ARGV 2  finished before this instant
-- ARGV 3  how many of the latest to keep at most, -1 for any number
-- ARGV 4  limit
-- ARGV 5  discarded or replaced before this instant
-- ARGV 6  how long each is kept at least, in ms, whatever else is said
-- Returns how many went

local keep, limit, ended_before_at = integer(3), integer(4), now - integer(6)
local before_at, discarded_before_at = math.min(integer(2), ended_before_at), math.min(integer(5), ended_before_at)
local removed = 0

local function forget_page(most, until_at)
  if most > 0 then
    removed = removed + forget_finished(take_oldest(most, until_at))
  end
end

local function forget_old()
  forget_page(limit, before_at)
  if keep >= 0 then
    forget_page(math.min(count_finished() - keep, limit - removed), ended_before_at)
  end
end

local function free_ended()
  for _, ends in ipairs(redis.call('ZRANGE', root .. ':key_ends', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)) do
    removed = removed + redis.call('HLEN', root .. ':keys:' .. ends)
    redis.call('UNLINK', root .. ':keys:' .. ends)
    redis.call('ZREM', root .. ':key_ends', ends)
  end
end

forget_old()
local discarded = redis.call('ZRANGE', root .. ':discarded', '-inf', '(' .. discarded_before_at, 'BYSCORE', 'LIMIT', 0,
  limit - removed)
for _, id in ipairs(discarded) do
  removed = removed + (forget_discarded(id) and 1 or 0)
end
free_ended()
return removed
