-- frame.lua: the frozen message as frames.py lays it down.
-- Composed after: lane
--
-- A frame is a head and the body. The head: format, its own length, the body's, enqueued_at, due_at,
-- expires_at, ttl_s, a digest of body and headers, track, the lengths of tenant, dedupe key and parent; then
-- tenant, a zero byte, key, parent, headers. So tenant and key together are the field of :keys. A finished message
-- keeps its head, and a lease carries it, because a script that reads a whole frame pays for every byte of it.

local FRAME = '>BI4I4I8I8I8dc8BBI2I2'
local FRAME_SIZE = 55
local FORMAT = 2

-- Nil for what cannot be read here: a script that fails half-way does not roll back.
local function read_head(frame)
  if not frame or #frame < FRAME_SIZE or string.byte(frame) ~= FORMAT then
    return nil
  end
  local _, length, size, _, due_at, expires_at, ttl_s, content, track, tenant_length, key_length, parent_length =
    struct.unpack(FRAME, frame)
  local tenant_ends = FRAME_SIZE + tenant_length
  local key_ends = tenant_ends + 1 + key_length
  if length > #frame or key_ends + parent_length > length or not TRACKS[track] then
    return nil
  end
  return {
    length = length, size = size, due_at = due_at, expires_at = expires_at,
    ttl_ms = math.floor(ttl_s * 1000 + 0.5), content = content, track = track,
    tenant = string.sub(frame, FRAME_SIZE + 1, tenant_ends),
    field = key_length > 0 and string.sub(frame, FRAME_SIZE + 1, key_ends) or nil,
    parent = parent_length > 0 and string.sub(frame, key_ends + 1, key_ends + parent_length) or nil,
  }
end

-- The head of a frame, empty when it cannot be read.
local function cut_head(frame)
  if not frame or #frame < FRAME_SIZE or string.byte(frame) ~= FORMAT then
    return ''
  end
  local length = struct.unpack('>I4', frame, 2)
  return length <= #frame and string.sub(frame, 1, length) or ''
end

-- The dedupe field and the parent in a head, for what is done often.
local function read_ends(head)
  local tenant_length, key_length, parent_length = struct.unpack('>BI2I2', head, FRAME_SIZE - 4)
  local key_ends = FRAME_SIZE + tenant_length + 1 + key_length
  return key_length > 0 and string.sub(head, FRAME_SIZE + 1, key_ends) or nil,
    parent_length > 0 and string.sub(head, key_ends + 1, key_ends + parent_length) or nil
end

-- What cannot be read stays as it is.
local function drop_body(frame)
  local head = cut_head(frame)
  return head ~= '' and head or frame
end

-- What is left of a message that is done or removed: when, the length of its progress, progress (none when it
-- was done at its first attempt), and the frame, without the body unless open children or a removed letter
-- need it.
local ENDING = '>I6I2'
local ENDING_SIZE = 8

-- Frame and packed progress of an ending.
local function open_ending(ending)
  local _, length = struct.unpack(ENDING, ending)
  local progress_ends = ENDING_SIZE + length
  return string.sub(ending, progress_ends + 1), string.sub(ending, ENDING_SIZE + 1, progress_ends)
end

-- The parent of a finished message, nil when it has none; most are told without reading the rest.
local function parent_of(ending)
  local _, length = struct.unpack(ENDING, ending)
  local lengths_end = ENDING_SIZE + length + FRAME_SIZE
  if #ending < lengths_end or struct.unpack('>I2', ending, lengths_end - 1) == 0 then
    return nil
  end
  local head = read_head((open_ending(ending)))
  return head and head.parent
end

-- The frame of a message in whatever state, false when there is none.
local function find_frame(id)
  local frame = redis.call('HGET', root .. ':messages', id) or redis.call('HGET', root .. ':letters', id)
  if frame then
    return frame
  end
  local ending = redis.call('HGET', root .. ':finished', id)
  return ending and (open_ending(ending))
end
