#!/bin/sh
# Run once by the image of PostgreSQL, on an empty volume: the role of the service, with no right but
# to connect. What it needs in the schema it gets from: standin migrate --grant-to standin_app
set -eu
psql -v ON_ERROR_STOP=1 -v password="$(cat "${APP_PASSWORD_FILE:-/run/secrets/app_password}")" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
create role standin_app login password :'password';
revoke all on database vault from public;
revoke create on schema public from public;
grant connect on database vault to standin_app;
SQL
