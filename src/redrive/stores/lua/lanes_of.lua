#!lua flags=no-writes
-- lanes_of: the lanes of some tenants.
-- Composed after: placement
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  and on: the tenants
-- Returns the rows as placement.lua says, without tenants that never had a message or a setting here

local tenants, rows = list_ids(2), {}
load_lanes(tenants)
for _, tenant in ipairs(tenants) do
  if not lanes[tenant].new then
    rows[#rows + 1] = lane_row(lanes[tenant])
  end
end
return rows
