#!lua flags=allow-oom
-- set_lane: change a lane's state, weight or cap; what already waits is placed anew.
-- Composed after: queue, placement, messages, holds, lane_row
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  tenant    ARGV 3  state, empty to leave it; it ends a verdict's hold
-- ARGV 4  weight, 0 to leave it     ARGV 5  cap, -1 to leave it, 0 to remove it
-- Returns the row as lane_row says

local tenant, state, weight, cap = ARGV[2], ARGV[3], integer(4), integer(5)

know_tenant(tenant)
redis.call('HSETNX', root, 'state', 'running')
if state ~= '' then
  switch(tenant, state)
end
if weight > 0 then
  redis.call('HSET', lane_key(tenant), 'weight', weight)
end
if cap > 0 then
  redis.call('HSET', lane_key(tenant), 'cap', cap)
elseif cap == 0 then
  redis.call('HDEL', lane_key(tenant), 'cap')
end
touch(tenant)
place_touched()
return lane_row(tenant)
