-- Schema 12. How long a failed attempt ran, the delay chosen after it, and whether somebody asked for that delay.

alter table failures add column duration_ms integer;
alter table failures add column delay_ms integer;
alter table failures add column delay_asked integer not null default 0;
