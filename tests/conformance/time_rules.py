"""The machine's rules for what time does: leases run out or are extended, lives end, held lanes probe."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from redrive.core.failure import Kind
from redrive.core.message import Delivery, Lapse
from redrive.core.retry import RetryPolicy
from redrive.core.verdict import Failed, Settlement, Verdict, decide
from tests.conformance.makers import failure, new_token, soon
from tests.conformance.worker_rules import LEASE_S, STEP_S, WorkerRules, picks, queues, seeds


class TimeRules(WorkerRules):
    """The clock moves here and nowhere else."""

    @initialize()
    def open(self) -> None:
        self._open()
        self.advance(1)
        for queue in ("orders", "mail:send"):
            self._claim(queue, 3)
        self.advance(3)
        self.reclaim("orders", decided=True, limit=500)

    @precondition(lambda self: self._deliveries)
    @rule(indexes=picks)
    def extend(self, indexes: list[int]) -> None:
        leases = {self._deliveries[index % len(self._deliveries)].lease for index in indexes}
        gone = self._run(self._store.extend(sorted(leases, key=lambda one: one.token), LEASE_S))
        assert gone == {one.token for one in leases if not self._model.held_by(one.token)}
        for lease in leases:
            for message_id in self._model.held_by(lease.token):
                self._model.items[message_id].until_at = self._model.now + round(LEASE_S * 1000)

    @rule(steps=st.integers(1, 4))
    def advance(self, steps: int) -> None:
        self._bench.advance(steps * STEP_S)

    @rule(queue=queues, decided=st.booleans(), limit=st.sampled_from([1, 2, 500]))
    def reclaim(self, queue: str, decided: bool, limit: int) -> None:
        """Take over what lapsed; then decide and settle, unless this process is lost as well."""
        taken = self._reclaim(queue, limit)
        if decided and taken:
            settlements = [Settlement(one, self._judge(one)) for one in taken]
            assert self._run(self._store.settle(settlements)) == set()
            applied = [self._apply(one) for one in settlements]
            assert all(applied)

    @rule(queue=queues, kinds=seeds, limit=st.sampled_from([1, 2, 500]))
    def overtake(self, queue: str, kinds: list[str], limit: int) -> None:
        """Leases run out, someone takes over, and the late workers settle with what they have."""
        self._claim(queue, 4)
        late = [one for one in self._deliveries if self._model.holds(one.message.id, one.lease.token)]
        self.advance(2)
        taken = self._reclaim(queue, limit)
        chosen = {one.message.id for one in taken}
        overtaken = [one for one in late if one.message.id in chosen]
        self._settle(list(zip(overtaken, kinds, strict=False)))
        self.claim_suspect(queue)

    def _reclaim(self, queue: str, limit: int) -> list[Delivery]:
        token = new_token()
        taken = self._run(self._store.reclaim(queue, token, LEASE_S, limit))
        lapsed = self._model.lapsed(queue)
        assert len(taken) == min(limit, len(lapsed))
        wrong = [one for one in taken if lapsed.get(one.message.id) is not one.lapse]
        assert wrong == [], f"{[(one.message.id, one.lapse) for one in wrong]} are not among {lapsed}"
        for delivery in taken:
            assert not delivery.probe
            self._check_parent(delivery)
            self._model.take_over(delivery.message.id, token, delivery.lease.until_at)
            self.seen[f"reclaimed {delivery.lapse}"] += 1
        self._deliveries += taken
        return taken

    def _judge(self, delivery: Delivery) -> Verdict:
        lost = delivery.lapse is Lapse.LOST and self._model.items[delivery.message.id].counted
        outcome = Failed(failure(delivery, kind=Kind.LOST if lost else Kind.EXPIRED))
        return decide(outcome, delivery.progress, RetryPolicy(), now=soon(self._store), jitter=0.5)

    @rule(queue=queues, kinds=seeds, limit=st.integers(1, 4))
    def hold_and_probe(self, queue: str, kinds: list[str], limit: int) -> None:
        """A batch holds its lanes; later each of them sends a probe, with whatever outcome."""
        batch = self._deliveries[-count:] if (count := self._claim(queue, limit)) else []
        self._settle([(delivery, "hold") for delivery in batch])
        self.advance(1)
        probes = self._deliveries[-count:] if (count := self._claim(queue, 12)) else []
        self._settle(list(zip(probes, kinds, strict=False)))
