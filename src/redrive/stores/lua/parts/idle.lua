-- idle.lua: the answer of a claim that finds nothing, given before the functions of all other parts are built: they
-- cost more than the look, and an idle worker asks for little else.
-- Composed after: root
--
-- The arguments are those of claim. A queue with a rate, one that is paused, and a claim that is asked for again go
-- the long way, with the same answer.

local function first_at(key)
  return tonumber(redis.call('ZRANGE', root .. key, 0, 0, 'WITHSCORES')[2]) or math.huge
end

if redis.call('EXISTS', root .. ':ring', root .. ':lease:' .. ARGV[2]) == 0 and integer(7) == 0
  and (redis.call('HGET', root, 'state') or 'running') == 'running' then
  local next_at = math.min(first_at(':timer'), first_at(':suspects'))
  if next_at > now then
    redis.call('DEL', root .. ':hint')
    return { now, 0, next_at < math.huge and next_at or -1, { 0, {}, {}, {} } }
  end
end
