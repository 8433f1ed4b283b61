"""The contract of the meta state under concurrency: its history is linearizable, whatever fails (invariant I18)."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
import random

from slotreeve.ports import Election

from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.election_storm import ElectionStorm
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.recorded_clients import KEYS, RecordedClient, RecordedHistory

CLIENTS = 6
FAULTS = 12
STORMS = 3
PAUSE_SECONDS = 0.02


class ElectionHistoryContract(ElectionScene):
    """Clients write and read at once through whichever node leads, while faults strike."""

    def test_concurrent_writers_and_readers_over_faults_stay_linearizable(self) -> None:
        backend = self.make_backend()
        operations = 0
        for seed in range(backend.first_storm, backend.first_storm + backend.storms):
            try:
                operations += self._stay_linearizable(seed, nodes=3 + 2 * (seed % 2))
            except Exception as error:
                error.add_note(f"in the storm of seed {seed}")
                raise
        self.measured(f"{backend.storms} storms from seed {backend.first_storm}, {operations} operations")

    def _stay_linearizable(self, seed: int, nodes: int) -> int:
        history = RecordedHistory()

        async def scenario(ensemble: Ensemble) -> None:
            unit = self.backend.fail_over_seconds
            rng = random.Random(seed)
            storm = ElectionStorm(ensemble, self.store, rng, unit)

            def leaders() -> list[Election]:
                return [ensemble.election(name) for name in ensemble.leading() if storm.awake(name)]

            await ensemble.start()
            await ensemble.agreed()
            clients = [
                RecordedClient(f"client-{number}", leaders, history, random.Random(rng.random()))
                for number in range(CLIENTS)
            ]
            tasks = [asyncio.ensure_future(client.run(PAUSE_SECONDS, 2 * unit)) for client in clients]
            for _ in range(STORMS):
                await storm.rage(FAULTS)
                await storm.end()
                await ensemble.agreed(within_seconds=self.patience)
                await asyncio.sleep(unit / 2)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            leader = ensemble.election(await ensemble.agreed(within_seconds=self.patience))
            for key in KEYS:
                history.read(leader, key)
            problem = history.problem()
            assert problem is None, f"I18, seed {seed}: {problem}"

        self.play(scenario, nodes, seed)
        return len(history.operations)
