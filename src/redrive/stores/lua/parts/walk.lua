-- walk.lua: the walk of a claim around the ring, without writing before its end.
-- Composed after: lease
--
-- A turn is a lane in the ring during a claim; its streams are its tracks. A stream is read ahead a page at a
-- time: what of its ready list and of its due later ones comes next, by due_at. `close_streams` then takes
-- out at once what was handed out. A lane served again in the same claim goes on where it was.

local any_gone = redis.call('EXISTS', root .. ':gone') == 1

local NOTHING = {}

local turns, line, position, rotated = {}, {}, 1, {}
local loaded, ring_size = 0, nil

-- A number costs a command more than a text does, and most lanes have the same ones.
local texts = {}

local function text_of(number)
  texts[number] = texts[number] or string.format('%d', number)
  return texts[number]
end

local function read_page(stream)
  local first = stream.read
  stream.page = redis.call('LRANGE', stream.key, text_of(first),
    text_of(first + stream.page_size - 1))
  stream.read, stream.at = first + #stream.page, 1
  return stream.page[1]
end

-- The next element of the list that really waits, nil at its end.
local function next_ready(stream)
  while stream.used < stream.ready do
    local element = stream.page[stream.at] or read_page(stream)
    if not any_gone or redis.call('SREM', root .. ':gone', place_of(stream.list, element)) == 0 then
      return element
    end
    stream.at, stream.used = stream.at + 1, stream.used + 1
  end
  return nil
end

-- What comes next, nil when nothing is due; looked for when it is first asked for.
local function head_of(stream)
  if not stream.looked then
    local ready, late = next_ready(stream), stream.late[stream.late_at]
    stream.head_is_late = late ~= nil
      and (not ready or struct.unpack('>I6', late) < struct.unpack('>I6', ready))
    stream.head, stream.looked = stream.head_is_late and late or ready, true
  end
  return stream.head
end

-- Goes on behind what was handed out.
local function advance(stream)
  if stream.head_is_late then
    stream.late_at = stream.late_at + 1
  else
    if bit.band(string.byte(stream.head, ELEMENT_SIZE), MARKED) > 0 then
      note_leaving(':expiry', place_of(stream.list, stream.head))
    end
    stream.at, stream.used = stream.at + 1, stream.used + 1
  end
  stream.looked = false
end

local function open_stream(lane, track, wanted, page_size)
  local list = list_of(track, lane.tenant)
  local stream = {
    track = track, list = list, key = root .. ':ready:' .. list, ready = lane[READY + track], read = 0, used = 0,
    page = NOTHING, at = 1, page_size = page_size, late = NOTHING, late_at = 1, looked = false, head = nil,
    head_is_late = false,
  }
  if lane[LATER + track] > 0 then
    local key = root .. later_key(track, lane.tenant)
    stream.late = redis.call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, wanted)
  end
  return stream
end

local function open_turn(tenant, wanted, quantum)
  local lane = touch(tenant)
  local room = lane.switched and rules.room_of(lane, now) or math.huge
  local turn = { lane = lane, quantum = quantum * lane.weight, room = room, taken = 0, streams = { nil, nil, nil } }
  local page_size = math.min(BATCH, math.max(turn.quantum, math.ceil(wanted / ring_size)))
  for track = 1, #TRACKS do
    if lane[READY + track] + lane[LATER + track] > 0 then
      turn.streams[track] = open_stream(lane, track, wanted, page_size)
    end
  end
  turns[#turns + 1] = turn
  return turn
end

-- Reads on in the ring for as many lanes as may be needed for `wanted` messages.
local function read_ring_on(wanted, quantum)
  local page = math.max(1, math.min(BATCH, math.ceil(wanted / quantum)))
  local tenants = redis.call('ZRANGE', root .. ':ring', loaded, loaded + page - 1)
  loaded = loaded + #tenants
  if #tenants == 0 then
    ring_size = loaded
  end
  load_lanes(tenants)
  for _, tenant in ipairs(tenants) do
    line[#line + 1] = tenant
  end
end

-- Who comes next; those whose turn ended come again once everyone else in the ring has had one.
local function next_turn(wanted, quantum)
  ring_size = ring_size or redis.call('ZCARD', root .. ':ring')
  if not line[position] and loaded < ring_size then
    read_ring_on(wanted, quantum)
  end
  if not line[position] then
    line, position, rotated = rotated, 1, {}
  end
  local turn = line[position]
  if type(turn) == 'string' then
    turn = open_turn(turn, wanted, quantum)
    line[position] = turn
  end
  return turn
end

-- What a turn would hand out next: of the track after the last one that has due work, so that none starves another.
local function pick_stream(turn)
  local last = turn.lane.last_track
  for step = 1, turn.taken < turn.room and #TRACKS or 0 do
    local stream = turn.streams[(last + step - 1) % #TRACKS + 1]
    if stream and head_of(stream) then
      return stream
    end
  end
  return nil
end

-- Whether a turn could hand out more; known without reading on, unless some elements are gone.
local function has_more(turn)
  if any_gone or turn.taken >= turn.room then
    return pick_stream(turn) ~= nil
  end
  for _, stream in pairs(turn.streams) do
    if stream.used < stream.ready or stream.late[stream.late_at] then
      return true
    end
  end
  return false
end

local function leave_line()
  position = position + 1
end

local function go_behind(turn)
  leave_line()
  if has_more(turn) then
    rotated[#rotated + 1] = turn
  end
end

local function close_late(lane, stream)
  local key = later_key(stream.track, lane.tenant)
  for index = 1, stream.late_at - 1 do
    local element = stream.late[index]
    local _, _, _, marks = struct.unpack(ELEMENT, element)
    note_leaving(key, element)
    note_leaving(due_key(marks), id_of(element))
    note_leaving(':expiry', place_of(stream.list, element))
  end
  lane[LATER + stream.track] = lane[LATER + stream.track] - (stream.late_at - 1)
end

local function close_ready(lane, stream)
  redis.call('LTRIM', stream.key, text_of(stream.used), '-1')
  shorten(lane, stream.track, stream.used)
  if any_gone then
    drop_gone(lane, stream.track)
  end
end

local function close_streams(count_taken)
  for _, turn in ipairs(turns) do
    for _, stream in pairs(turn.streams) do
      if stream.used > 0 then
        close_ready(turn.lane, stream)
      end
      if stream.late_at > 1 then
        close_late(turn.lane, stream)
      end
    end
    count_taken(turn.lane, turn.taken)
  end
end
