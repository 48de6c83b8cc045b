-- Schema 7. How far the file has come, and what of it was once found missing: see witness.py.

create table witness (one integer primary key check (one = 1), identity text not null, number integer not null);
insert into witness (one, identity, number) values (1, lower(hex(randomblob(8))), 0);
create table losses (found_at integer not null, had integer not null, number integer not null);
