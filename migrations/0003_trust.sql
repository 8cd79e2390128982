-- What a client may do, its own limits (null: those of the deployment), and how long its tokens live (null: for ever).
-- Columns with a constant default and without one are added without a rewrite; a null costs a record nothing.
alter table standin.clients
  add column can_tokenize boolean not null default true,
  add column can_detokenize boolean not null default true,
  add column detokenize_limit double precision,
  add column unknown_token_limit double precision,
  add column time_to_live_s integer;

-- A record past this time is as unknown as one that is not there. One whose value was removed (forgotten or expired) has
-- an empty `sealed`: its token must never come to stand for another value.
alter table standin.records add column expires_at timestamptz;
create index records_expires_at on standin.records (expires_at) where expires_at is not null;
