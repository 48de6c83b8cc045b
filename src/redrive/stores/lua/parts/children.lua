-- children.lua: parents and children.
-- Composed after: item
--
-- :children counts the open children of a parent; while there are any, its body and its record stay.

local function has_children(id)
  return redis.call('HEXISTS', root .. ':children', id) == 1
end

-- Returns how many are open now.
local function count_child(parent, by)
  local open = redis.call('HINCRBY', root .. ':children', parent, by)
  if open <= 0 then
    redis.call('HDEL', root .. ':children', parent)
  end
  return math.max(0, open)
end

-- Whether a message may still run, and fan out again: its children must be known then.
local function is_unsettled(id)
  return redis.call('HEXISTS', root .. ':messages', id) == 1 or redis.call('HEXISTS', root .. ':letters', id) == 1
end

-- Whether a message can have children: it is here and has its body.
local function can_have_children(id)
  return is_unsettled(id) or has_children(id) or redis.call('ZSCORE', root .. ':discarded', id) ~= false
end

-- A child that comes back from an archive keeps its place.
local function open_child(id, parent)
  count_child(parent, 1)
  redis.call('ZADD', root .. ':family:' .. parent, 'NX', redis.call('HINCRBY', root, 'sequence', 1), id)
end
