#!/usr/bin/env bash
# Installs into build/language-model what the example of that name needs. language-model.test.ts is skipped without it.
set -e
cd "$(dirname "$0")"
folder=$(cd ../.. && pwd)/build/language-model
python3 -m venv "$folder"
"$folder/bin/pip" install -q -r ../../examples/language-model/requirements.txt
touch "$folder/ready"
