"""`redrive demo`, and what it shares with `redrive up`: a gateway, traffic, a live page."""
