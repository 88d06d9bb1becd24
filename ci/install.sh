#!/usr/bin/env bash
# Install xscore from the folder of the action into an environment of its own, in the runner's temporary folder.
# Every package is of the version and checksum that ci/locks names. The job's own Python and PATH stay as they are. Gives the outputs `xscore` and `python`, two paths.
set -euo pipefail

place="$RUNNER_TEMP/xscore"
mkdir -p "$place"
cd "$place" # so that no module of the checkout can replace one of Python's

python=""
for name in python3 python3.14 python3.13 python3.12 python3.11; do
  if "$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python="$name"
    break
  fi
done
if [ -z "$python" ]; then
  echo "::error title=xscore::There is no Python 3.11 or newer. Put actions/setup-python before this step."
  exit 2
fi

if [ ! -e env/installed ] || [ "$(cat env/installed)" != "$GITHUB_ACTION_PATH" ]; then
  "$python" -I -m venv --clear env
  install=(env/bin/python -I -m pip --disable-pip-version-check install --quiet)
  "${install[@]}" --require-hashes --requirement "$GITHUB_ACTION_PATH/ci/locks/run.txt"
  "${install[@]}" --no-deps --no-build-isolation "$GITHUB_ACTION_PATH"
  printf '%s' "$GITHUB_ACTION_PATH" > env/installed
fi

{
  echo "xscore=$place/env/bin/xscore"
  echo "python=$place/env/bin/python"
} >> "$GITHUB_OUTPUT"
