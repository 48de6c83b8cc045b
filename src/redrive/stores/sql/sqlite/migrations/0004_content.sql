-- Schema 4. What tells a repeated message from another one with the same id.
--
-- content is a digest of body and headers, which outlives both; null in what was accepted before.

alter table messages add column content blob;
