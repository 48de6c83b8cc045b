#!lua flags=no-writes
-- minutes: what became of messages, minute by minute.
-- Composed after: totals
--
-- KEYS 1  the root of the totals
-- ARGV 1  skew    ARGV 2  from this instant on    ARGV 3  queue, or nothing for each queue that has a label
-- ARGV 4  how many queues have labels at most
-- Returns one after the other, in any order: the number of the minute, its queue, its counts as text

local first = math.floor(math.max(tonumber(ARGV[2]), now - MINUTES_KEPT_MS) / MINUTE_MS)
local last = math.floor(now / MINUTE_MS)
local rows = {}

local function read_hour(hour, queue)
  local key = minutes_key(hour, queue)
  if redis.call('EXISTS', key) == 0 then
    return
  end
  for minute = math.max(first, hour * 60), math.min(last, hour * 60 + 59) do
    local counts = redis.call('HGET', key, minute % 60)
    if counts then
      rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = minute, queue, counts
    end
  end
end

local queues = { ARGV[3] }
if ARGV[3] == '' then
  queues = redis.call('SRANDMEMBER', root .. ':labels:queue', ARGV[4])
  queues[#queues + 1] = OTHER
end
for hour = math.floor(first / 60), math.floor(last / 60) do
  for _, queue in ipairs(queues) do
    read_hour(hour, queue)
  end
end
return rows
