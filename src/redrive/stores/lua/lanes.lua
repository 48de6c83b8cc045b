#!lua flags=no-writes
-- lanes: a page of a queue's lanes by tenant name.
-- Composed after: placement
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  from after this tenant, empty for the first page    ARGV 3  limit
-- Returns the rows as placement.lua says

local from = ARGV[2] == '' and '-' or '(' .. ARGV[2]
local tenants = redis.call('ZRANGE', root .. ':tenants', from, '+', 'BYLEX', 'LIMIT', 0, integer(3))
load_lanes(tenants)
local rows = {}
for index, tenant in ipairs(tenants) do
  rows[index] = lane_row(lanes[tenant])
end
return rows
