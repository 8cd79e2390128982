-- Versions of the policy: its document, byte for byte as it was applied. The newest is in force; nothing changes a row.
create table standin.policies (
  version    integer     not null primary key,
  document   text        not null,
  applied_at timestamptz not null default now(),
  applied_by text        not null default current_user
);

-- The operation `lookup`, its limit (null: that of the deployment), and the space of a client's tokens ('': the one that
-- every client had before). Constant defaults: no rewrite, and programs of before go on as they were.
alter table standin.clients
  add column can_lookup boolean not null default false,
  add column lookup_limit double precision,
  add column space text not null default '';
