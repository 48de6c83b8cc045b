#!lua flags=no-writes
-- next_lanes: the lanes whose turn comes next, in that order.
-- Composed after: placement
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  limit
-- Returns the rows as placement.lua says

local tenants = redis.call('ZRANGE', root .. ':ring', '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, integer(2))
load_lanes(tenants)
local rows = {}
for index, tenant in ipairs(tenants) do
  rows[index] = lane_row(lanes[tenant])
end
return rows
