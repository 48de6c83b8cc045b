#!lua flags=allow-oom
-- run_now: make waiting messages due now; one that is due already keeps its place.
-- Composed after: queue, placement, messages
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  ids
-- Returns    the ids that are now due

local moved = {}
for _, id in ipairs(list_ids(2)) do
  local progress = read_progress(id)
  if progress and progress.state == 'waiting' then
    leave_waiting(id, progress)
    progress.due_at = math.min(progress.due_at, now)
    enter_waiting(id, progress)
    write_progress(id, progress)
    moved[#moved + 1] = id
  end
end
place_touched()
return moved
