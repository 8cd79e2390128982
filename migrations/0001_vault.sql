-- The vault: one row a token, no token and no value in clear. Only statements that hold on one row each run
-- against it, so that it can be distributed by token_fingerprint. Fixed-length columns first: no padding.
create table standin.records (
  created_at        timestamptz not null default now(),
  key_version       integer     not null,
  token_fingerprint bytea       not null primary key,
  value_fingerprint bytea       not null,
  sealed            bytea       not null
);

-- The keys of the vault, each wrapped by the KEK, which is not in the database.
create table standin.keyring (
  purpose    text        not null,
  version    integer     not null,
  kek_id     text        not null,
  wrapped    bytea       not null,
  created_at timestamptz not null default now(),
  primary key (purpose, version)
);

-- What is fixed when the vault is made.
create table standin.settings (
  name  text not null primary key,
  value text not null
);

create table standin.clients (
  client_id   text        not null primary key,
  name        text        not null,
  rate_limit  double precision,
  token_mode  text        not null,
  created_at  timestamptz not null default now(),
  disabled_at timestamptz
);

-- digest is keyed and of the whole API key: a row cannot be made without the key that the KEK wraps.
create table standin.api_keys (
  api_key_id text        not null primary key,
  client_id  text        not null references standin.clients (client_id),
  digest     bytea       not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz
);
