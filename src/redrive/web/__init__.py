"""HTTP: submitting mails and messages, asking about a mail, and health.

Needs the extra `web`; the rest of Redrive imports this room only when it serves.
"""
