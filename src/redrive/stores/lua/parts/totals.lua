-- totals.lua: what the verbs on totals begin with.
-- Composed after: record
--
-- KEYS 1  the root of the totals, in a slot of its own

local SEPARATOR, OTHER = '\n', 'other'
local MINUTE_MS = 60000
local MINUTES_KEPT_MS, SOURCE_KEPT_MS = 7 * 86400000, 86400000
local FLOWS = { accepted = 1, done = 2, retried = 3, dead = 4, released = 5 }

-- A hash of the minutes of one hour: small enough that Redis packs it tightly.
local function minutes_key(hour, queue)
  return root .. ':minutes:' .. hour .. ':' .. queue
end

-- accepted, done, retried, dead, released
local function read_counts(text)
  local counts = { 0, 0, 0, 0, 0 }
  local flow = 0
  for count in string.gmatch(text or '', '%d+') do
    flow = flow + 1
    counts[flow] = tonumber(count)
  end
  return counts
end
