#!lua
-- add_totals: add what one process counted. Not allowed when memory is full: the process keeps it until there is room.
-- Composed after: totals
--
-- KEYS 1  the root of the totals
-- ARGV 1  skew    ARGV 2  the process    ARGV 3  the number of its batch
-- ARGV 4  and on, for each total: name, kind of its label, how many labels of that kind are given, label, part, count
-- Returns 1, or 0 when the batch was added before

local FIELDS = 6
local source, number = root .. ':from:' .. ARGV[2], tonumber(ARGV[3])
if tonumber(redis.call('GET', source) or 0) >= number then
  return 0
end

local given = {}

-- The label itself while there are labels of its kind to give; once given, it stays. OTHER needs none.
local function settle_label(kind, limit, label)
  local place = kind .. SEPARATOR .. label
  if kind == '' or label == OTHER or given[place] then
    return given[place] or label
  end
  local key = root .. ':labels:' .. kind
  local known = redis.call('SISMEMBER', key, label) == 1
  if not known and redis.call('SCARD', key) < limit then
    redis.call('SADD', key, label)
    known = true
  end
  given[place] = known and label or OTHER
  return given[place]
end

local minutes = {}

local function add_to_minute(queue, flow, count)
  local counts = minutes[queue] or { 0, 0, 0, 0, 0 }
  counts[flow] = counts[flow] + count
  minutes[queue] = counts
end

for index = 4, #ARGV, FIELDS do
  local name, part, count = ARGV[index], ARGV[index + 4], ARGV[index + 5]
  local label = settle_label(ARGV[index + 1], tonumber(ARGV[index + 2]), ARGV[index + 3])
  redis.call('HINCRBY', root, table.concat({ name, label, part }, SEPARATOR), count)
  if FLOWS[name] then
    add_to_minute(label, FLOWS[name], tonumber(count))
  end
end

local minute = math.floor(now / MINUTE_MS)
for queue, counts in pairs(minutes) do
  local key, field = minutes_key(math.floor(minute / 60), queue), minute % 60
  local before = read_counts(redis.call('HGET', key, field))
  for flow = 1, 5 do
    counts[flow] = counts[flow] + before[flow]
  end
  redis.call('HSET', key, field, table.concat(counts, ' '))
  redis.call('PEXPIRE', key, MINUTES_KEPT_MS + 60 * MINUTE_MS)
end
redis.call('SET', source, number, 'PX', SOURCE_KEPT_MS)
return 1
