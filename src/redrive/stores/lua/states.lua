-- states.lua: what is known of ids, whatever their state.
-- Composed after: items

local function state_of_ending(ending)
  local _, progress = open_ending(ending)
  local item = progress ~= '' and unpack_progress('', progress)
  return item and item.state or 'done'
end

-- The state of each id, false for an unknown one.
local function find_states(ids)
  local messages, letters = get_all(root .. ':messages', ids), get_all(root .. ':letters', ids)
  local endings, states = get_all(root .. ':finished', ids), {}
  for index = 1, #ids do
    if messages[index] then
      local held = redis.call('HEXISTS', root .. ':held', ids[index]) == 1
      states[index] = held and 'claimed' or 'waiting'
    elseif letters[index] then
      states[index] = 'dead'
    else
      states[index] = endings[index] and state_of_ending(endings[index])
    end
  end
  return states
end
