#!lua flags=allow-oom
-- remove: dead to removed, by a move; what is not that death of that message is skipped. The dedupe key is
-- freed.
-- Composed after: ending
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  actor    ARGV 3  operation, empty for none
-- ARGV 4     discard or replace: the content stays until cleanup takes it; archive: only a bare record stays
-- ARGV 5...  two for each letter: id, generation (-1 for whichever it has)
-- Returns    the ids that moved

local actor, operation, move = ARGV[2], ARGV[3], ARGV[4]

local function remove(item)
  leave_dead(item)
  mark_removed(item, move, actor)
  item.operation = operation ~= '' and operation or item.operation
  if move == 'archive' then
    forget_history(item.id)
    finish(item, false)
    close_child(item.parent)
  else
    finish(item, true)
  end
end

local moved = move_letters(list_letters(5), remove)
count_operation(operation, 'moved', #moved)
save_lanes()
return moved
