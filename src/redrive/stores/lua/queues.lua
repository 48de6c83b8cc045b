#!lua flags=no-writes
-- queues: one queue's state and counts (R24), from sorted sets and sums, never from messages.
-- Composed after: queue
--
-- KEYS 1  the queue's root
-- ARGV 1  skew
-- Returns { state, pending, scheduled, retry scheduled, processing, published, dlq, suspects,
--         oldest due_at or -1 }; nothing for a queue that never had a message or a setting

local sums = redis.call('HMGET', root, 'state', 'in_flight', 'done', 'dead', 'suspects')

local function later(key)
  return redis.call('ZCOUNT', root .. key, '(' .. now, '+inf')
end

local function oldest(key)
  return tonumber(redis.call('ZRANGE', root .. key, 0, 0, 'WITHSCORES')[2] or math.huge)
end

if redis.call('EXISTS', root) == 0 then
  return {}
end
local scheduled, retry_scheduled = later(':untried'), later(':retried')
local waiting = redis.call('ZCARD', root .. ':untried') + redis.call('ZCARD', root .. ':retried')
local oldest_due_at = math.min(oldest(':untried'), oldest(':retried'))
return {
  sums[1] or 'running', waiting - scheduled - retry_scheduled, scheduled, retry_scheduled,
  tonumber(sums[2] or 0), tonumber(sums[3] or 0), tonumber(sums[4] or 0), tonumber(sums[5] or 0),
  waiting > 0 and oldest_due_at or -1,
}
