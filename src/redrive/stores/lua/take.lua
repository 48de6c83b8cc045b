#!lua flags=allow-oom
-- take: hand out waiting messages by name, due or not, attempt + 1, under a token.
-- Composed after: lease, ending
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  token    ARGV 3  lease in ms
-- ARGV 4...  two for each message: id, generation (-1 for whichever it has)
-- Returns    the batch as lease.answer_batch says

local token, lease_ms = ARGV[2], integer(3)
local ids, values, held = {}, {}, {}

local function take(item)
  leave_waiting(item)
  local lane = touch(item.tenant)
  count(lane, 'in_flight', 1)
  item.state, item.attempts = 'claimed', item.attempts + 1
  write_progress(item)
  local marks = TRIED + CHARGED + (item.parent and CHILD or 0)
  local value = pack_held(marks, item.track, item.tenant, token) .. cut_head(item.frame)
  ids[#ids + 1], values[#values + 1] = item.id, value
  held[#held + 1], held[#held + 2] = item.id, value
end

local function take_named()
  local seen = {}
  for _, one in ipairs(list_letters(4)) do
    local item = not seen[one.id] and read_waiting(one.id)
    if item and (one.generation < 0 or one.generation == item.generation) then
      take(item)
      seen[one.id] = true
    end
  end
  if #ids > 0 then
    write_lease(token, now + lease_ms, ids, held)
    save_lanes()
  end
end

if redis.call('EXISTS', lease_key(token)) == 1 then
  ids, values = list_held(token)
else
  take_named()
end
return answer_batch(token, ids, values, get_all(root .. ':messages', ids))
