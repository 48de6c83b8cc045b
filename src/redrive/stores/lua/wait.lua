#!lua flags=no-writes
-- wait: how long until a queue's next timer, in milliseconds from now.
-- Composed after: root
--
-- KEYS 1  the queue's root
-- ARGV 1  skew
-- Returns 0 or more; -1 when nothing is scheduled or the queue is paused

local function from_now(key, minimum)
  local head = redis.call('ZRANGE', root .. key, minimum, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  return head[2] and math.max(0, tonumber(head[2]) - now) or math.huge
end

if (redis.call('HGET', root, 'state') or 'running') ~= 'running' then
  return -1
end
-- Due suspects are not waited for: a worker that is busy leaves them, and would spin here.
local soonest = math.min(from_now(':timer', '-inf'), from_now(':suspects', '(' .. now))
return soonest < math.huge and soonest or -1
