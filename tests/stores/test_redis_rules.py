"""lua/parts/rules.lua decides as core.lanes and core.limits do: both answer the same generated cases.

The part runs as it is on a real server, behind a few lines that read the cases and write the answers. None is
-1 on the way, but for no rate and no probe, which are 0 as they are stored.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import product
from random import Random
from typing import Any

import msgspec
import pytest

from redrive.core import lanes, limits
from redrive.core.lanes import LaneState, Place, Ring, Turn
from redrive.core.limits import Rate, Window
from redrive.stores.statements import load_lua
from tests.stores.redis_server import connected

NOW = 1_000_000
PERIOD_MS = 60_000
_NONE = -1

_HARNESS = """
local function optional(value)
  return value and value ~= math.huge and value or -1
end

local function turns_of(case)
  local turns, taken, bytes = case.turns, {}, 0
  local line = { ring = function() return case.ring end }
  function line.front() return turns[1] end
  function line.leave() table.remove(turns, 1) end
  function line.go_behind(turn) table.insert(turns, table.remove(turns, 1)) end
  function line.head(turn) return turn.ready[turn.taken + 1] end
  function line.take(turn, size)
    if #taken >= case.limit or bytes + size > case.most_bytes then
      return false
    end
    taken[#taken + 1], bytes = turn.lane.name, bytes + size
    return true
  end
  local all = { unpack(turns) }
  rules.take_turns(line)
  local lanes = {}
  for index, turn in ipairs(all) do
    local lane = turn.lane
    lanes[index] = { lane.turn, lane.consecutive, turn.taken, lane.last_round }
  end
  return { taken, lanes, { case.ring.next_turn, case.ring.round, case.ring.round_ends } }
end

local asked = {}

function asked.rate(case)
  local began_at, used, left = rules.reserve(case, case.now)
  return { began_at, used, left, rules.free_at(case) }
end

function asked.place(case)
  local due_at = case.due_at >= 0 and case.due_at or nil
  return { optional(rules.next_run_at(case, due_at)), optional(rules.place(case, due_at)),
    optional(rules.effective_cap(case)), optional(rules.room_of(case, case.now)) }
end

asked.turns = turns_of

local answers = {}
for index, case in ipairs(cmsgpack.unpack(ARGV[2])) do
  answers[index] = asked[ARGV[1]](case)
end
return cmsgpack.pack(answers)
"""


async def _ask_lua(redis_url: str, what: str, cases: list[Any]) -> list[Any]:
    script = "\n".join(("#!lua flags=no-writes", load_lua("parts/rules"), _HARNESS))
    async with connected(redis_url) as server:
        answer: Any = await server.eval(script, 0, what, msgspec.msgpack.encode(cases))  # type: ignore[misc]
    answers: list[Any] = msgspec.msgpack.decode(answer)
    assert len(answers) == len(cases)
    return answers


def _stored_rate(rate: Rate | None, window: Window) -> dict[str, int]:
    return {
        "rate_count": rate.count if rate else 0,
        "rate_period_ms": PERIOD_MS if rate else 0,
        "window_began_at": window.began_at,
        "window_used": window.used,
    }


async def test_a_rate_lets_go_what_core_lets_go(redis_url: str) -> None:
    begun = (NOW - 2 * PERIOD_MS, NOW - PERIOD_MS, NOW - PERIOD_MS + 1, NOW - 1, NOW, NOW + 1)
    windows = [Window(began_at, used) for began_at, used in product((0, *begun), (0, 1, 4, 5, 6))]
    rates = [Rate(count, PERIOD_MS / 1000) for count in (1, 5)]
    cases = [{**_stored_rate(rate, window), "now": NOW} for rate, window in product(rates, windows)]
    expected = []
    for rate, window in product(rates, windows):
        everything, nothing = limits.reserve(rate, window, NOW, 1_000), limits.reserve(rate, window, NOW, 0)
        running = nothing.window
        free_at = limits.free_at(rate, window)
        expected.append([running.began_at, running.used, everything.granted, free_at])
    assert await _ask_lua(redis_url, "rate", cases) == expected


@dataclass(frozen=True, slots=True)
class LaneCase:
    """A lane as core knows it."""

    state: LaneState
    in_flight: int
    cap: int | None
    due_at: int | None
    probe_at: int | None
    rate: Rate | None
    window: Window

    def stored(self) -> dict[str, Any]:
        return {
            "state": self.state.value,
            "in_flight": self.in_flight,
            "cap": _NONE if self.cap is None else self.cap,
            "due_at": _NONE if self.due_at is None else self.due_at,
            "probe_at": self.probe_at or 0,
            "now": NOW,
            **_stored_rate(self.rate, self.window),
        }

    def next_run_at(self) -> int | None:
        free_at = limits.free_at(self.rate, self.window)
        return lanes.next_run_at(self.state, self.due_at, self.probe_at, free_at)

    def place(self) -> Place:
        free_at = limits.free_at(self.rate, self.window)
        return lanes.place(self.state, self.in_flight, self.cap, self.due_at, NOW, self.probe_at, free_at)

    def room(self) -> int | None:
        most = lanes.effective_cap(self.state, self.cap)
        free = None if most is None else most - self.in_flight
        if self.rate is None:
            return free
        granted = limits.reserve(self.rate, self.window, NOW, 1_000).granted
        return granted if free is None else min(free, granted)


LANES = [
    LaneCase(*parts)
    for parts in product(
        LaneState,
        (0, 1, 2),
        (None, 1, 2),
        (None, 0, NOW - 1, NOW, NOW + 1),
        (None, NOW - 1, NOW + 5),
        (None, Rate(1, PERIOD_MS / 1000), Rate(3, PERIOD_MS / 1000)),
        (Window(), Window(NOW - 10, 3), Window(NOW - PERIOD_MS, 3), Window(NOW + 10, 1)),
    )
]


async def test_a_lane_stands_where_core_puts_it(redis_url: str) -> None:
    answers = await _ask_lua(redis_url, "place", [case.stored() for case in LANES])
    for case, (next_run_at, run_at, cap, room) in zip(LANES, answers, strict=True):
        place = Place.PARKED if run_at == _NONE else Place.RING if run_at <= NOW else Place.TIMER
        assert place is case.place(), case
        assert next_run_at == _number(case.next_run_at()), case
        assert cap == _number(lanes.effective_cap(case.state, case.cap)), case
        assert max(_NONE, room) == max(_NONE, _number(case.room())), case


def _number(value: int | None) -> int:
    return _NONE if value is None else value


@dataclass(slots=True)
class Claim:
    """A ring of lanes, each with the sizes of what it has ready, and what a claim has room for."""

    random: Random
    limit: int = 0
    most_bytes: int = 0
    ring: Ring = field(init=False)
    turns: list[Turn[tuple[int, int]]] = field(init=False)

    def __post_init__(self) -> None:
        random, size = self.random, self.random.randrange(7)
        self.limit, self.most_bytes = random.randrange(1, 25), random.choice((8, 20, 10_000))
        numbers = sorted(random.sample(range(1, 40), size))
        self.ring = Ring(40 + random.randrange(3), random.randrange(5), random.randrange(45))
        self.turns = [self._make_turn(lane, number) for lane, number in enumerate(numbers)]

    def _make_turn(self, lane: int, number: int) -> Turn[tuple[int, int]]:
        quantum = 3 * self.random.choice((1, 1, 2))
        ready = deque((lane, self.random.randrange(1, 4)) for _ in range(self.random.randrange(9)))
        return Turn(lane, number, quantum, ready, consecutive=self.random.randrange(quantum + 2))

    def stored(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "most_bytes": self.most_bytes,
            "ring": asdict(self.ring),
            "turns": [
                {
                    "lane": {
                        "name": turn.lane,
                        "turn": turn.number,
                        "consecutive": turn.consecutive,
                        "last_round": _NONE,
                    },
                    "quantum": turn.quantum,
                    "taken": 0,
                    "ready": [size for _, size in turn.ready],
                }
                for turn in self.turns
            ],
        }

    def take(self) -> list[Any]:
        """What core hands out, and what it leaves behind."""
        taken: list[int] = []

        def room(one: tuple[int, int]) -> bool:
            fits = len(taken) < self.limit and sum(taken) + one[1] <= self.most_bytes
            if fits:
                taken.append(one[1])
            return fits

        handed_out = lanes.take_turns(self.turns, self.ring, room, whole=True)
        left = [
            [turn.number, turn.consecutive, turn.taken, _number(turn.served_round)] for turn in self.turns
        ]
        return [
            [lane for lane, _ in handed_out],
            left,
            [self.ring.next_turn, self.ring.round, self.ring.round_ends],
        ]


@pytest.mark.parametrize("seed", range(3))
async def test_a_claim_takes_the_turns_that_core_takes(redis_url: str, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - cases, not secrets
    claims = [Claim(random) for _ in range(500)]
    answers = await _ask_lua(redis_url, "turns", [claim.stored() for claim in claims])
    assert answers == [claim.take() for claim in claims]
