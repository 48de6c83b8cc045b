-- Tracebacks that nothing refers to any more, and how often the others are used: messages that failed the same
-- way several times let go of theirs only once.
delete from tracebacks where traceback not in (select traceback from failures where traceback is not null);
update tracebacks set uses = used.times
from (select traceback as number, count(*) as times from failures where traceback is not null group by traceback) as used
where tracebacks.traceback = used.number;
