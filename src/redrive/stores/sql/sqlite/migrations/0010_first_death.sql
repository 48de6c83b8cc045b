-- Schema 10. When a message first died; what it dies of after a re-drive does not change that.
--
-- Of what was re-driven before, the last failure before the first re-drive tells it.

alter table messages add column first_died_at integer;
update messages set first_died_at = coalesce(
  (select max(f.at) from failures f
    where f.seq = messages.seq and f.at <= (select min(r.at) from redrives r where r.seq = messages.seq)),
  died_at)
where died_at is not null or generation > 0;

alter table letters add column first_died_at integer not null default 0;
update letters set first_died_at = (select m.first_died_at from messages m where m.id = letters.id);
