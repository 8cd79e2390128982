#!/usr/bin/env bash
# Installs into build/python what builds, checks and runs the Python package, and the packages that it needs itself as
# wheels. python.test.ts is skipped without it.
cd "$(dirname "$0")" || exit 1
folder=$(cd ../.. && pwd)/build/python
python3 -m venv "$folder" &&
  "$folder/bin/pip" install -q -r requirements.txt &&
  "$folder/bin/pip" download -q -d "$folder/wheels" httpx==0.28.1 &&
  touch "$folder/ready"
