-- When an API key was last used, to the minute. A table of its own: the service writes here, and may change nothing of
-- api_keys (on Citus, which has no rights of columns, it could take revocations back). No row is rewritten, nothing is locked,
-- and programs of before go on as they were.
create table standin.api_key_uses (
  api_key_id   text        not null primary key,
  last_used_at timestamptz not null
);
