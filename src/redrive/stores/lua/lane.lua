#!lua flags=no-writes
-- lane: one lane of a queue.
-- Composed after: placement
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  tenant
-- Returns the row as placement.lua says; nothing when the tenant never had a message or a setting here

load_lanes({ ARGV[2] })
local lane = lanes[ARGV[2]]
return lane.new and {} or lane_row(lane)
