"""The peers' side: what a user of each would write, and nothing of ours but the body."""
