-- families.lua: parents and children. Composed after messages.lua.
--
-- A parent's progress counts its open `children`; while there are any, its body and its record stay. A child's
-- progress names its `parent`, and `shared` is the size of the parent's body. Only scripts use the two numbers.

-- The progress of a parent that can have children, nil when it is not here or has lost its body.
local function find_parent(id)
  local parent = read_progress(id)
  return parent and has_body(parent) and parent or nil
end

-- The caller writes both.
local function open_child(id, progress, parent)
  parent.children, progress.shared = (parent.children or 0) + 1, parent.size
  redis.call('ZADD', root .. ':family:' .. progress.parent, progress.sequence, id)
end

local function forget_child(id, progress)
  if progress and progress.parent then
    redis.call('ZREM', root .. ':family:' .. progress.parent, id)
  end
end
