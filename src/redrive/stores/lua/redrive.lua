#!lua
-- redrive: dead to waiting, in place; what is not that death of that message is skipped.
-- Composed after: ending
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  actor    ARGV 3  operation, empty for none
-- ARGV 4...  two for each letter: id, generation (-1 for whichever it has)
-- Returns    the ids that moved

local REDRIVE = 3

local actor, operation = ARGV[2], ARGV[3]

local function renew(item)
  item.generation, item.operation, item.track = item.generation + 1, operation, REDRIVE
  item.attempts, item.crashes, item.judged = 0, 0, false
  item.due_at, item.expires_at = now, now + item.ttl_ms
  item.reason, item.fingerprint, item.died_at = '', '', 0
end

local function redrive(item)
  leave_dead(item)
  renew(item)
  redis.call('HSET', root .. ':messages', item.id, item.frame)
  enter_waiting(item)
  append_record(':redrives', item.id, cmsgpack.pack({
    at = now, generation = item.generation, actor = actor, operation = operation ~= '' and operation or nil,
    result = 'pending',
  }))
end

local moved = move_letters(list_letters(4), redrive)
count_operation(operation, 'moved', #moved)
save_lanes()
return moved
