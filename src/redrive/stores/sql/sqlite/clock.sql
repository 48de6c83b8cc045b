-- Where the file's clock stood: its time, in which boot of the machine, and how long that had been up.

-- name: read
select now, boot, up_ms from clock

-- name: keep
insert or replace into clock (one, now, boot, up_ms) values (1, ?, ?, ?)
