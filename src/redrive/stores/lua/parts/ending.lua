-- ending.lua: how a message becomes dead, done or removed, and how it is forgotten.
-- Composed after: children, history, dedupe
--
-- Only the functions here and in item.lua and lease.lua move a message between states, so that it is in
-- exactly one. `finish` leaves the item's frame without its body, unless open children need it or
-- `whole` says to keep it.

local DEPARTED = 20000
local CHANGES_SINCE_S = 1700000000

-- Numbers begin with the clock, so that a queue that was emptied does not count its old ones again: whoever
-- knows those is behind what is forgotten.
local function next_change()
  local change = redis.call('HINCRBY', root, 'change', 1)
  if change == 1 then
    change = math.floor(now / 1000) - CHANGES_SINCE_S
    redis.call('HSET', root, 'change', change, 'departed', change - 1)
  end
  return change
end

local function note_death(id)
  redis.call('ZADD', root .. ':changes', next_change(), id)
  redis.call('ZREM', root .. ':departed', id)
end

-- Only the latest departures are remembered; `departed` is the last one that no longer is.
local function note_departure(id)
  redis.call('ZREM', root .. ':changes', id)
  redis.call('ZADD', root .. ':departed', next_change(), id)
  if redis.call('ZCARD', root .. ':departed') > DEPARTED then
    redis.call('HSET', root, 'departed', redis.call('ZPOPMIN', root .. ':departed')[2])
  end
end

local function dead_member(item)
  return struct.pack('>I6', item.died_at) .. item.id
end

local function enter_dead(item)
  item.state, item.tried = 'dead', true
  redis.call('HSET', root .. ':letters', item.id, item.frame)
  redis.call('ZADD', root .. ':dead', 0, dead_member(item))
  count(touch(item.tenant), 'dead', 1)
  note_death(item.id)
  write_progress(item)
end

local function leave_dead(item)
  redis.call('HDEL', root .. ':letters', item.id)
  redis.call('ZREM', root .. ':dead', dead_member(item))
  count(touch(item.tenant), 'dead', -1)
  note_departure(item.id)
end

-- A dead letter, or nil when the id is none; `generation` -1 is whichever it has.
local function read_dead(id, generation)
  local frame = redis.call('HGET', root .. ':letters', id)
  local item = frame and make_item(id, frame, redis.call('HGET', root .. ':progress', id) or '')
  if not item or (generation >= 0 and generation ~= item.generation) then
    return nil
  end
  return item
end

-- The letters that are named from an argument on, two for each.
local function list_letters(first)
  local named = {}
  for index = first, #ARGV, 2 do
    named[#named + 1] = { id = ARGV[index], generation = integer(index + 1) }
  end
  return named
end

-- Moves those of the named letters that are there, and returns their ids.
local function move_letters(named, move)
  local moved = {}
  for _, one in ipairs(named) do
    local item = read_dead(one.id, one.generation)
    if item then
      move(item)
      moved[#moved + 1] = item.id
    end
  end
  return moved
end

local function write_ending(item, frame)
  local progress = pack_progress(item)
  local ending = struct.pack(ENDING, item.finished_at, #progress) .. progress .. frame
  redis.call('HSET', root .. ':finished', item.id, ending)
end

local function finish(item, whole)
  local open = has_children(item.id)
  write_ending(item, (whole or open) and item.frame or drop_body(item.frame))
  redis.call('HDEL', root .. ':progress', item.id)
  if whole then
    redis.call('ZADD', root .. ':discarded', item.finished_at, item.id)
  elseif not open then
    redis.call('ZADD', root .. ':finished_order', item.finished_at, item.id)
  end
end

local function keeps_content(progress)
  local item = progress ~= '' and unpack_progress('', progress)
  return item and (item.move == 'discard' or item.move == 'replace')
end

-- The last child of a finished parent is gone: so is the parent's body, unless it is a letter that was
-- removed.
local function lay_to_rest(id)
  local ending = redis.call('HGET', root .. ':finished', id)
  if not ending then
    return
  end
  local frame, progress = open_ending(ending)
  local finished_at = struct.unpack(ENDING, ending)
  if keeps_content(progress) then
    redis.call('ZADD', root .. ':discarded', finished_at, id)
    return
  end
  local rest = struct.pack(ENDING, finished_at, #progress) .. progress .. drop_body(frame)
  redis.call('HSET', root .. ':finished', id, rest)
  redis.call('ZADD', root .. ':finished_order', finished_at, id)
end

local function close_child(parent)
  if parent and count_child(parent, -1) == 0 then
    lay_to_rest(parent)
  end
end

-- Marks the item as removed by someone; the caller says what stays of it.
local function mark_removed(item, move, actor)
  item.state, item.finished_at, item.move, item.actor = 'removed', now, move, actor
  free_key(item.id, item.field)
  end_redrive(item, 'removed')
end

local function cancel_waiting(item, move, actor)
  leave_waiting(item)
  redis.call('HDEL', root .. ':messages', item.id)
  mark_removed(item, move, actor)
  finish(item, false)
  close_child(item.parent)
end

-- The oldest finished ids, at most `most` of them that ended before an instant, taken out of both orders.
local function take_oldest(most, before_at)
  local done = redis.call('LRANGE', root .. ':done', 0, most - 1)
  local others = redis.call('ZRANGE', root .. ':finished_order', 0, most - 1, 'WITHSCORES')
  local ids, done_at, others_at = {}, 1, 1
  while #ids < most do
    local done_ended_at = done[done_at] and struct.unpack('>I6', done[done_at]) or math.huge
    local other_ended_at = tonumber(others[others_at + 1] or math.huge)
    if math.min(done_ended_at, other_ended_at) >= before_at then
      break
    end
    if done_ended_at <= other_ended_at then
      ids[#ids + 1], done_at = string.sub(done[done_at], 7), done_at + 1
    else
      ids[#ids + 1], others_at = others[others_at], others_at + 2
      note_leaving(':finished_order', ids[#ids])
    end
  end
  if done_at > 1 then
    redis.call('LTRIM', root .. ':done', done_at - 1, -1)
  end
  write_noted()
  return ids
end

local function count_finished()
  return redis.call('LLEN', root .. ':done') + redis.call('ZCARD', root .. ':finished_order')
end

-- Without those that have open children again, since one came back from an archive; they age anew with its end.
local function without_parents(ids)
  if redis.call('EXISTS', root .. ':children') == 0 then
    return ids
  end
  local chosen = {}
  for _, id in ipairs(ids) do
    if not has_children(id) then
      chosen[#chosen + 1] = id
    end
  end
  return chosen
end

-- Forgets finished messages, which are in no order any more, with everything that was kept of them. A child whose
-- parent is not settled goes to the end of the line instead: the parent may fan out again. Returns how many went.
local function forget_finished(ids)
  local going = {}
  ids = without_parents(ids)
  local failures = redis.call('EXISTS', root .. ':failures') == 1 and get_all(root .. ':failures', ids) or {}
  for index, ending in ipairs(get_all(root .. ':finished', ids)) do
    local id, parent = ids[index], ending and parent_of(ending)
    if parent and is_unsettled(parent) then
      note_entering(':finished_order', now, id)
    else
      going[#going + 1] = id
      if parent then
        redis.call('ZREM', root .. ':family:' .. parent, id)
      end
      if failures[index] then
        forget_failures(id, failures[index])
      end
    end
  end
  write_noted()
  call_all('HDEL', root .. ':finished', going)
  call_all('HDEL', root .. ':redrives', going)
  return #going
end

-- Forgets a letter that was removed and kept its content. One with open children comes back to :discarded with the end
-- of the last of them. Returns whether it went.
local function forget_discarded(id)
  local head = read_head(find_frame(id))
  redis.call('ZREM', root .. ':discarded', id)
  if has_children(id) then
    return false
  elseif head and head.parent and is_unsettled(head.parent) then
    redis.call('ZADD', root .. ':discarded', now, id)
    return false
  end
  forget_finished({ id })
  close_child(head and head.parent)
  return true
end
