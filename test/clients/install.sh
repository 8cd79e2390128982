#!/usr/bin/env bash
# Installs into build/python what builds, checks and runs the Python package, and the packages that it needs itself as
# wheels. python.test.ts is skipped without it.
set -e
cd "$(dirname "$0")"
folder=$(cd ../.. && pwd)/build/python
python3 -m venv "$folder"
"$folder/bin/pip" install -q -r requirements.txt
"$folder/bin/pip" download -q -d "$folder/wheels" httpx==0.28.1
touch "$folder/ready"

# Other versions of Python that this machine has, for the cases of all clients.
for python in /usr/bin/python3.1? "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1*/bin/python; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  [ -e "$folder/lib/python$version" ] || [ -e "$folder/versions/$version" ] ||
    { "$python" -m venv "$folder/versions/$version"; "$folder/versions/$version/bin/pip" install -q httpx==0.28.1; }
done
