#!lua flags=allow-oom
-- purge: cancel a page of whatever waits in the queue, due or not.
-- Composed after: queue, placement, messages, families, history
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  actor    ARGV 3  limit
-- Returns how many were cancelled

local actor, limit = ARGV[2], integer(3)
local purged = 0

-- An id without readable progress is left for claim, which hands it out to be buried.
local function purge_from(key)
  for _, id in ipairs(redis.call('ZRANGE', root .. key, 0, limit - purged - 1)) do
    local progress = read_progress(id)
    if progress then
      cancel_waiting(id, progress, 'purge', actor)
      purged = purged + 1
    end
  end
end

purge_from(':untried')
if purged < limit then
  purge_from(':retried')
end
place_touched()
return purged
