#!/bin/sh
# The PostgreSQL image runs this script once, on an empty volume. It makes the role of the service,
# which may only connect. This command grants the rights: standin migrate --grant-to standin_app
set -eu
psql -v ON_ERROR_STOP=1 -v password="$(cat "${APP_PASSWORD_FILE:-/run/secrets/app_password}")" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
create role standin_app login password :'password';
revoke all on database vault from public;
revoke create on schema public from public;
grant connect on database vault to standin_app;
SQL
