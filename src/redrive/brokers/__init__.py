"""Brokers carry: what a team's broker holds is consumed, parked, collected and brought back.

A broker's own words stay in its room here. A room never decides about an attempt, that is `core`, and never
keeps a letter, that is the ledger beside it.
"""

ROOMS = {"rabbitmq": "RabbitMQ: its topology, compared and applied."}
"""The rooms that have commands of their own, and what those are for. Nothing is imported here."""
