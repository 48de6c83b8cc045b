-- Records and the journal: versioned documents, and rows that are only ever added.

-- name: record
select version, document from records where kind = ? and id = ? and (expires_at is null or expires_at > ?)

-- name: write
insert into records (kind, id, version, document, expires_at) values (?, ?, ?, ?, ?)
on conflict do update set version = excluded.version, document = excluded.document, expires_at = excluded.expires_at

-- name: list
select id, version, document from records
where kind = ? and id > ? and (expires_at is null or expires_at > ?) order by id limit ?

-- name: delete
delete from records where kind = ? and id = ?

-- name: head
select coalesce(max(position), 0) from journal where name = ?

-- name: add_row
insert into journal (name, position, at, document) values (?, ?, ?, ?)

-- name: rows
select position, at, document from journal where name = ? and position > ? order by position limit ?
