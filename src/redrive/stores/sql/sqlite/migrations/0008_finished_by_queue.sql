-- Schema 8. What is done or removed, by queue, the newest first; the lane, so that one tenant's are found in it.

create index ended on messages (queue, state, finished_at, lane) where finished_at is not null;
