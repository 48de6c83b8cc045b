#!lua flags=allow-oom
-- cleanup: remove a page of finished records and ended dedupe keys; never a dead or discarded letter, nor a
-- parent with open children.
-- Composed after: queue, placement, messages, families, history
--
-- KEYS 1  the queue's root
-- ARGV 1  skew
-- ARGV 2  finished before this instant
-- ARGV 3  how many of the latest to keep at most, -1 for any number
-- ARGV 4  limit
-- Returns how many went

local before_at, keep, limit = integer(2), integer(3), integer(4)
local removed = 0

local function forget_all(ids)
  for _, id in ipairs(ids) do
    forget(id, read_progress(id))
    removed = removed + 1
  end
end

local function forget_old()
  local finished = root .. ':finished'
  forget_all(redis.call('ZRANGE', finished, '-inf', '(' .. before_at, 'BYSCORE', 'LIMIT', 0, limit))
  local surplus = keep >= 0 and redis.call('ZCARD', finished) - keep or 0
  local page = math.min(surplus, limit - removed)
  if page > 0 then
    forget_all(redis.call('ZRANGE', finished, 0, page - 1))
  end
end

local function free_ended()
  local ended = root .. ':dedupe_ended'
  for _, field in ipairs(redis.call('ZRANGE', ended, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit - removed)) do
    redis.call('HDEL', root .. ':dedupe', field)
    redis.call('ZREM', ended, field)
    removed = removed + 1
  end
end

forget_old()
free_ended()
return removed
