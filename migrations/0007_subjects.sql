-- The claim of a JWT that names this client as its caller (null: none). The index keeps two clients from one claim. Without a
-- default, nothing is rewritten, and programs of before go on as they were.
-- `api_key_uses` counts requests with JWTs, too: under the id of the client, which no API key has.
alter table standin.clients add column subject text;
create unique index clients_subject on standin.clients (subject);
