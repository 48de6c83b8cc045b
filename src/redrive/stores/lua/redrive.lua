#!lua
-- redrive: dead to waiting, in place (P27, P29); ids that are not dead are skipped.
-- Composed after: queue, placement, messages
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  actor    ARGV 3  operation, empty for none
-- ARGV 4...  ids
-- Returns    the ids that moved

local actor, operation = ARGV[2], ARGV[3] ~= '' and ARGV[3] or nil

local function renew(progress)
  progress.generation, progress.operation, progress.track = progress.generation + 1, operation, 'redrive'
  progress.attempts, progress.crashes = 0, 0
  progress.due_at, progress.expires_at = now, now + progress.ttl_ms
  progress.reason, progress.fingerprint, progress.died_at = nil, nil, nil
end

local function redrive(id, progress)
  leave_dead(id, progress)
  renew(progress)
  enter_waiting(id, progress)
  write_progress(id, progress)
  redis.call('RPUSH', root .. ':r:' .. id, cmsgpack.pack({
    at = now, generation = progress.generation, actor = actor, operation = operation, result = 'pending',
  }))
end

local moved = {}
for _, id in ipairs(list_ids(4)) do
  local progress = read_progress(id)
  if progress and progress.state == 'dead' then
    redrive(id, progress)
    moved[#moved + 1] = id
  end
end
place_touched()
return moved
