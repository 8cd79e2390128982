-- The versions of the policy that were found durable. A node need not wait for the standby to know that one is in force, and
-- one that the standby does not have is not. A failover can give a number to another document: the time says which it was.
create table standin.durable_policies (
  version    integer     not null,
  applied_at timestamptz not null,
  primary key (version, applied_at)
);

-- Whether the program that applied the version notes it above. False: it may be durable without a note. A constant default:
-- no rewrite, and programs of before go on as they were.
alter table standin.policies add column is_noted boolean not null default false;
