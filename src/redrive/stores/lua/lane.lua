#!lua flags=no-writes
-- lane: one lane of a queue.
-- Composed after: queue, placement, lane_row
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  tenant
-- Returns the row as lane_row says; nothing when the tenant never had a message or a setting here

if not redis.call('ZSCORE', root .. ':tenants', ARGV[2]) then
  return {}
end
return lane_row(ARGV[2])
