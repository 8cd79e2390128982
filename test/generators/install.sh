#!/usr/bin/env bash
# Installs generators of clients, and what their clients need, into build/generators. Needs python3, npm and mvn.
# generators.test.ts skips what is not there.
set -e
cd "$(dirname "$0")"
folder=$(cd ../.. && pwd)/build/generators
mkdir -p "$folder"

python3 -m venv "$folder/python"
"$folder/python/bin/pip" install -q -r requirements.txt

npm install --silent --no-save --prefix "$folder/node" openapi-typescript@7.13.0 openapi-fetch@0.17.0 \
  @hey-api/openapi-ts@0.99.0 typescript@5.9.3 @types/node@20.19.43

maven=org.apache.maven.plugins:maven-dependency-plugin:3.9.0
mvn -q -B $maven:copy -Dartifact=org.openapitools:openapi-generator-cli:7.23.0 -Dmdep.stripVersion \
  -DoutputDirectory="$folder"
mvn -q -B $maven:copy-dependencies -DoutputDirectory="$folder/java"
