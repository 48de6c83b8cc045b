#!lua flags=allow-oom
-- queues: one queue's state and counts, from sums and from sorted sets of what is delayed, never from
-- messages.
-- Composed after: element
--
-- KEYS 1  the queue's root
-- ARGV 1  skew
-- Returns { state, pending, scheduled, retry scheduled, processing, published, dlq, suspects,
--         oldest due_at or -1 }; nothing for a queue that never had a message or a setting
--
-- The oldest of the ready lists is looked for from the least that :oldest says, and what it says is put right
-- on the way; after LOOKS lists it is taken at its word, which is then at most too old.

local LOOKS = 500

local function later(key)
  return redis.call('ZCOUNT', root .. key, '(' .. now, '+inf')
end

local function oldest_ready()
  for _ = 1, LOOKS do
    local front = redis.call('ZRANGE', root .. ':oldest', 0, 0, 'WITHSCORES')
    local head = front[1] and redis.call('LINDEX', root .. ':ready:' .. front[1], 0)
    if not head then
      return math.huge
    end
    local due_at = struct.unpack(ELEMENT, head)
    if due_at <= tonumber(front[2]) then
      return due_at
    end
    redis.call('ZADD', root .. ':oldest', due_at, front[1])
  end
  return head_score(':oldest')
end

if redis.call('EXISTS', root) == 0 then
  return {}
end
local names = { 'waiting', 'in_flight', 'done', 'dead', 'suspects' }
local sum = {}
for index, found in ipairs(get_all(root, names)) do
  sum[names[index]] = tonumber(found or 0)
end
local scheduled, retry_scheduled = later(':scheduled'), later(':retrying')
local oldest_due_at = math.min(oldest_ready(), head_score(':scheduled') or math.huge,
  head_score(':retrying') or math.huge)
return {
  redis.call('HGET', root, 'state') or 'running', sum.waiting - scheduled - retry_scheduled, scheduled, retry_scheduled,
  sum.in_flight, sum.done, sum.dead, sum.suspects,
  oldest_due_at < math.huge and oldest_due_at or -1,
}
