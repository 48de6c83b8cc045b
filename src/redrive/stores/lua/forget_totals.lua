#!lua flags=allow-oom
-- forget_totals: forget what was counted of a queue, in all and by the minute, and free its label.
-- Composed after: totals
--
-- KEYS 1  the root of the totals
-- ARGV 1  skew    ARGV 2  the queue    ARGV 3  and on: the names of what is counted by queue
-- Returns 1
--
-- Labels are bounded, and so are the fields that are looked through.

local queue, names = ARGV[2], {}
for index = 3, #ARGV do
  names[ARGV[index]] = true
end

for _, field in ipairs(redis.call('HKEYS', root)) do
  local name, label = string.match(field, '^(.-)' .. SEPARATOR .. '(.-)' .. SEPARATOR)
  if names[name] and label == queue then
    redis.call('HDEL', root, field)
  end
end
local hour = math.floor(now / MINUTE_MS / 60)
for back = -1, MINUTES_KEPT_MS / MINUTE_MS / 60 + 1 do
  redis.call('UNLINK', minutes_key(hour - back, queue))
end
redis.call('SREM', root .. ':labels:queue', queue)
return 1
