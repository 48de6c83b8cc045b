#!lua flags=allow-oom
-- run_now: make waiting messages due now; one that is due already keeps its place.
-- Composed after: item
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  ids
-- Returns    the ids that are now due

local moved = {}
for _, id in ipairs(list_ids(2)) do
  local item = read_waiting(id)
  if item and item.due_at > now then
    leave_waiting(item)
    item.due_at = now
    enter_waiting(item)
  end
  if item then
    moved[#moved + 1] = id
  end
end
save_lanes()
return moved
