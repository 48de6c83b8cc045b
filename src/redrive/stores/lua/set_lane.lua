#!lua flags=allow-oom
-- set_lane: change a lane's state, weight, cap or rate; what already waits is placed anew.
-- Composed after: placement
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  tenant    ARGV 3  state, empty to leave it; it ends a verdict's hold
-- ARGV 4  weight, 0 to leave it     ARGV 5  cap, -1 to leave it, 0 to remove it
-- ARGV 6  rate: hand-outs a period, -1 to leave it, 0 to remove it    ARGV 7  rate: period in ms
-- Returns the row as placement.lua says

local tenant, state, weight, cap = ARGV[2], ARGV[3], integer(4), integer(5)
local rate_count, rate_period_ms = integer(6), integer(7)

if state ~= '' and not STATE_CODES[state] then
  return redis.error_reply('REDRIVE state ' .. state .. ' is unknown')
end
local lane = touch(tenant)
redis.call('HSETNX', root, 'state', 'running')
if state ~= '' then
  switch(lane, state)
end
if weight > 0 then
  set_switch(lane, 'weight', weight)
end
if cap >= 0 then
  set_switch(lane, 'cap', cap > 0 and cap or -1)
end
if rate_count >= 0 then
  set_switch(lane, 'rate_count', rate_count)
  set_switch(lane, 'rate_period_ms', rate_period_ms)
end
save_lanes()
return lane_row(lane)
