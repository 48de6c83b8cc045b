#!lua flags=allow-oom
-- list_records: records of a kind by id. Ids of records that have expired are dropped on the way.
-- Composed after: record
--
-- KEYS 1  the kind's root
-- ARGV 1  skew    ARGV 2  from after this id, empty for the first page    ARGV 3  limit
-- Returns id, version, document for each

local limit = tonumber(ARGV[3])
local from = ARGV[2] == '' and '-' or '(' .. ARGV[2]
local rows = {}

-- Returns where to go on, nil at the end.
local function read_page()
  local ids = redis.call('ZRANGE', root, from, '+', 'BYLEX', 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    local record = read_record(id)
    if not record then
      redis.call('ZREM', root, id)
    elseif #rows < 3 * limit then
      rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = id, record.version, record.document
    end
  end
  return #ids == limit and '(' .. ids[limit] or nil
end

while from and #rows < 3 * limit do
  from = read_page()
end
return rows
