#!/bin/sh
# Makes the secrets of compose.yaml, and keeps existing secrets. You can run it again at any time.
# Back up secrets/kek apart from the database: without this file nobody can open the vault.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets

# secret NAME BYTES: writes random hex digits to secrets/NAME, unless the file exists.
secret() {
  if [ ! -s "secrets/$1" ]; then
    openssl rand -hex "$2" >"secrets/$1.new"
    mv "secrets/$1.new" "secrets/$1"
  fi
}

secret kek 32
for role in standin_owner standin_app; do
  secret "$role.password" 24
  printf 'postgres:5432:vault:%s:%s\n' "$role" "$(cat "secrets/$role.password")" >"secrets/$role.pgpass"
done
# PostgreSQL reads this file as another user. Its folder is open only to you.
chmod 644 secrets/standin_app.password
# Containers run as you, so that only they can read your files, but never as root.
uid=$(id -u) gid=$(id -g)
if [ "$uid" = 0 ]; then
  uid=1000 gid=1000
  chown -R "$uid:$gid" secrets
fi
if [ ! -s .env ]; then
  printf 'STANDIN_UID=%s\nSTANDIN_GID=%s\nOPS_TOKEN=%s\n' "$uid" "$gid" "$(openssl rand -hex 32)" >.env
fi
