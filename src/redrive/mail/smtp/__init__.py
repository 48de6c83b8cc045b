"""The SMTP client: a dialogue without I/O, its asyncio driver, and a pool of connections a relay."""
