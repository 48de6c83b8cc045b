#!lua
-- undiscard: removed by a discard to dead, as it was; what is not that death of that message is skipped. Its dedupe
-- key stays free.
-- Composed after: ending
--
-- KEYS 1     the queue's root
-- ARGV 1     skew    ARGV 2  operation, empty for none
-- ARGV 3...  two for each letter: id, generation (-1 for whichever it has)
-- Returns    the ids that moved

local operation = ARGV[2]

local function read_discarded(id, generation)
  local ending = redis.call('HGET', root .. ':finished', id)
  local frame, packed = '', ''
  if ending then
    frame, packed = open_ending(ending)
  end
  local item = packed ~= '' and make_item(id, frame, packed)
  if not item or item.move ~= 'discard' or (generation >= 0 and generation ~= item.generation) then
    return nil
  end
  return item
end

-- The operation of a dead letter is that of its last re-drive.
local function last_operation(id)
  local records = split(redis.call('HGET', root .. ':redrives', id))
  local readable, redriven = pcall(cmsgpack.unpack, records[#records] or '')
  return readable and type(redriven) == 'table' and redriven.operation or ''
end

local moved = {}
for _, one in ipairs(list_letters(3)) do
  local item = read_discarded(one.id, one.generation)
  if item then
    item.operation = last_operation(item.id)
    item.finished_at, item.move, item.actor = 0, '', ''
    redis.call('HDEL', root .. ':finished', item.id)
    redis.call('ZREM', root .. ':discarded', item.id)
    enter_dead(item)
    moved[#moved + 1] = item.id
  end
end
count_operation(operation, 'moved', #moved)
save_lanes()
return moved
