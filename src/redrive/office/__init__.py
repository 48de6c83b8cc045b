"""What people do with messages and dead letters, each verb once: CLI, API and pages call these.

The office knows the ports, never an adapter. Every verb that changes something is in the audit, with
an intent row before and an outcome row after it.
"""
