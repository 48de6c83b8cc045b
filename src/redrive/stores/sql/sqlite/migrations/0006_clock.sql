-- Schema 6. A clock that is not set: see clock.py.
--
-- A lease ends when the machine has been up for ends_ms, in the boot that it was last extended in; in another boot,
-- and where boots have no name, at until_at.

create table clock (one integer primary key check (one = 1), now integer not null, boot text, up_ms integer not null);
alter table leases add column boot text;
alter table leases add column ends_ms integer;
