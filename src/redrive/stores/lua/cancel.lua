#!lua flags=allow-oom
-- cancel: waiting to removed; the body goes, the dedupe key is freed.
-- Composed after: ending
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  actor
-- ARGV 3...  ids
-- Returns    the ids that moved

local moved = {}
for _, id in ipairs(list_ids(3)) do
  local item = read_waiting(id)
  if item then
    cancel_waiting(item, 'cancel', ARGV[2])
    moved[#moved + 1] = id
  end
end
save_lanes()
return moved
