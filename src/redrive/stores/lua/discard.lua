#!lua flags=allow-oom
-- discard: dead to removed; the letter's content stays, its dedupe key is freed.
-- Composed after: queue, placement, messages, families, history
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  actor
-- ARGV 3...  ids
-- Returns    the ids that moved

local moved = {}
for _, id in ipairs(list_ids(3)) do
  local progress = read_progress(id)
  if progress and progress.state == 'dead' then
    leave_dead(id, progress)
    mark_removed(id, progress, 'discard', ARGV[2])
    write_progress(id, progress)
    moved[#moved + 1] = id
  end
end
place_touched()
return moved
