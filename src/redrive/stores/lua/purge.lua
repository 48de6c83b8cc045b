#!lua flags=allow-oom
-- purge: cancel a page of whatever waits in the queue, or of one tenant in it, due or not.
-- Composed after: ending
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  actor    ARGV 3  limit    ARGV 4  tenant, empty for all
-- Returns how many were cancelled
--
-- What cannot be read is left for claim, which hands it out to be buried.

local actor, limit, tenant = ARGV[2], integer(3), ARGV[4]
local purged = 0

local function purge(ids)
  for _, id in ipairs(ids) do
    local item = purged < limit and read_waiting(id)
    if item then
      cancel_waiting(item, 'purge', actor)
      purged = purged + 1
    end
  end
end

local function purge_elements(elements)
  local ids = {}
  for index, element in ipairs(elements) do
    ids[index] = id_of(element)
  end
  purge(ids)
end

local function purge_list(list)
  purge_elements(redis.call('LRANGE', root .. ':ready:' .. list, 0, limit - purged - 1))
end

local function purge_all()
  for _, list in ipairs(redis.call('ZRANGE', root .. ':oldest', 0, limit - 1)) do
    purge_list(list)
  end
  for _, key in ipairs({ ':scheduled', ':retrying' }) do
    purge(redis.call('ZRANGE', root .. key, 0, limit - purged))
  end
end

local function purge_tenant()
  for track = 1, #TRACKS do
    purge_list(list_of(track, tenant))
    purge_elements(redis.call('ZRANGE', root .. later_key(track, tenant), 0, limit - purged))
  end
  purge_elements(redis.call('ZRANGE', root .. ':suspect:' .. tenant, 0, limit - purged))
end

if limit < 1 then
  return 0
end
if tenant == '' then
  purge_all()
else
  purge_tenant()
end
save_lanes()
return purged
