#!/usr/bin/env bash
# Installs what tests of examples need: into build/language-model for language-model.test.ts. Tests without it are skipped.
set -e
cd "$(dirname "$0")"
folder=$(cd ../.. && pwd)/build/language-model
python3 -m venv "$folder"
"$folder/bin/pip" install -q -r ../../examples/language-model/requirements.txt
touch "$folder/ready"

# LiteLLM into build/litellm, for litellm.test.ts. Its own versions of these three packages are not in every registry.
folder=$(cd ../.. && pwd)/build/litellm
python3 -m venv "$folder"
"$folder/bin/pip" install -q uv==0.13.9
printf '%s\n' certifi litellm-proxy-extras litellm-enterprise >"$folder/any-version"
"$folder/bin/uv" pip install -q --python "$folder/bin/python" --override "$folder/any-version" 'litellm[proxy]==1.109.1'
touch "$folder/ready"
