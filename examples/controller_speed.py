"""Acknowledgements a second of CPU time that a congestion controller in Python handles, and those of the same flow with a built-in
one: python examples/controller_speed.py [ROUNDS]

The time is that of the whole simulation: packets, links, and SCTP at both ends."""

from __future__ import annotations

import statistics
import sys
import time

from braidftp import lab

TEXT = """
title = "One flow"
lasts = "30 s"
[links.wan]
rate = "100 Mbit/s"
delay = "10 ms"
[transports.flow]
protocol = "sctp"
controller = "$controller"
[[workload]]
kind = "bulk"
transport = "flow"
[[axis]]
name = "controller"
values = ["python", "reno"]
"""


class Reno(lab.Controller):
    """Slow start, one packet more each round trip, half after a loss."""

    acks = 0

    def __init__(self, mtu: int) -> None:
        super().__init__(mtu)
        self.cwnd = 3.0 * mtu
        self.threshold = 2.0**32 - 1

    def window(self) -> float:
        return self.cwnd

    def ssthresh(self) -> float:
        return self.threshold

    def on_ack(self, ack: lab.Ack) -> None:
        Reno.acks += 1
        if not ack.in_recovery:
            share = 1.0 if self.cwnd < self.threshold else self.mtu / self.cwnd
            self.cwnd += min(ack.bytes, self.mtu) * share

    def on_congestion(self, congestion: lab.Congestion) -> None:
        self.threshold = max(self.cwnd / 2, 4.0 * self.mtu)
        self.cwnd = self.threshold if congestion.cause != "timeout" else float(self.mtu)


scenario = lab.Scenario(TEXT, controllers={"python": Reno})
rates: dict[str, list[float]] = {"python": [], "reno": []}
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
    Reno.acks = 0
    for controller, found in rates.items():
        before = time.process_time()
        scenario.run_once({"controller": controller}, seed=number + 1)
        # The built-in one has as many, which nobody counts.
        found.append(Reno.acks / (time.process_time() - before))
for controller, found in rates.items():
    print(f"{controller}: {statistics.median(found):,.0f} acknowledgements a second ({min(found):,.0f} to {max(found):,.0f})")
