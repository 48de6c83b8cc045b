-- How far the file has come: a number that goes up about once a second while somebody writes.

-- name: read
select identity, number from witness

-- name: advance
update witness set number = number + 1 returning identity, number

-- name: add_loss
insert into losses (found_at, had, number) select ?1, number, ?2 from witness

-- name: catch_up
update witness set number = ?

-- name: last_loss
select max(found_at), count(*) from losses
