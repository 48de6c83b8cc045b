-- Schema 11. Which lane was served last, and how many messages it was handed out in a row.

alter table queues add column last_lane integer;
alter table queues add column in_a_row integer not null default 0;
