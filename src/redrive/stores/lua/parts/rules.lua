-- rules.lua: what core.lanes and core.limits decide, said once more for the scripts, and nowhere else in Lua.
--
-- Nothing here reads or writes, so that tests/stores/test_redis_rules.py can run it on cases that core answers too: a
-- rule that changes there changes here. Of a lane 0 is no rate and no probe, -1 no cap. Whatever has a rate, a lane or
-- a queue, has a window too: when the running period began, and how many it has handed out.

local rules = {}

-- core.limits.reserve: the window as it is now, and how many more may go in it.
function rules.reserve(rated, now)
  local began_at, used = rated.window_began_at, rated.window_used
  if now >= began_at + rated.rate_period_ms or now < began_at then
    began_at, used = now, 0
  end
  return began_at, used, math.max(0, rated.rate_count - used)
end

-- core.limits.free_at
function rules.free_at(rated)
  local used_up = rated.rate_count > 0 and rated.window_used >= rated.rate_count
  return used_up and rated.window_began_at + rated.rate_period_ms or 0
end

-- core.lanes.effective_cap
function rules.effective_cap(lane)
  if lane.state == 'held' then
    return 1
  end
  return lane.cap >= 0 and lane.cap or math.huge
end

-- core.lanes.next_run_at
function rules.next_run_at(lane, due_at)
  if not due_at or lane.state == 'paused' or (lane.state == 'held' and lane.probe_at == 0) then
    return nil
  end
  return math.max(due_at, rules.free_at(lane), lane.state == 'held' and lane.probe_at or 0)
end

-- core.lanes.place, as the instant from which a lane stands in the ring; nil when it is parked.
function rules.place(lane, due_at)
  if lane.in_flight >= rules.effective_cap(lane) then
    return nil
  end
  return rules.next_run_at(lane, due_at)
end

-- How many more of a lane may be handed out now.
function rules.room_of(lane, now)
  local room = rules.effective_cap(lane) - lane.in_flight
  if lane.rate_count > 0 then
    room = math.min(room, (select(3, rules.reserve(lane, now))))
  end
  return room
end

-- core.lanes.Ring.rotate
function rules.rotate(ring)
  ring.next_turn, ring.changed = ring.next_turn + 1, true
  return ring.next_turn - 1
end

-- core.lanes.Ring.serve
function rules.serve(ring, number)
  if number >= ring.round_ends then
    ring.round, ring.round_ends, ring.changed = ring.round + 1, ring.next_turn, true
  end
  return ring.round
end

-- Returns whether there was room for all that the turn may hand out.
function rules.serve_turn(turn, line)
  local lane = turn.lane
  while lane.consecutive < turn.quantum do
    local head = line.head(turn)
    if not head then
      return true
    elseif not line.take(turn, head) then
      return false
    end
    turn.taken, lane.consecutive = turn.taken + 1, lane.consecutive + 1
  end
  return true
end

-- core.lanes.take_turns, over a line that is read as it goes. `front()` is the turn at its head, nil at its end;
-- `head` is what a turn would hand out next, nil for nothing; `take` hands that out, false when there is no room. Then
-- the turn goes behind all others, or leaves. `ring()` are the ring's counters.
function rules.take_turns(line)
  local room, turn = true, line.front()
  while room and turn do
    local lane, taken = turn.lane, turn.taken
    room = rules.serve_turn(turn, line)
    if turn.taken > taken then
      lane.last_round = rules.serve(line.ring(), lane.turn)
    end
    if lane.consecutive >= turn.quantum then
      lane.consecutive, lane.turn = 0, rules.rotate(line.ring())
      line.go_behind(turn)
    elseif room then
      line.leave()
    end
    turn = room and line.front()
  end
end
