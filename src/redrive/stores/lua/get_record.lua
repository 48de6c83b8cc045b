#!lua flags=no-writes
-- get_record: one record.
-- Composed after: record
--
-- KEYS 1  the kind's root
-- ARGV 1  skew    ARGV 2  id
-- Returns { version, document }, or nothing

local record = read_record(ARGV[2])
return record and { record.version, record.document } or {}
