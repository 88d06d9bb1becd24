#!/usr/bin/env bash
# Run one step, a module of this folder. Both folders are read here: in a container an expression of the action
# (`github.action_path`, `runner.temp`) names them as the host does, where nothing is.
set -euo pipefail

export PYTHONPATH="$GITHUB_ACTION_PATH"
export XSCORE_STORE_USER_DATA_DIR="$RUNNER_TEMP/xscore/user"
exec "$XSCORE_PYTHON" -P -m "ci.$1"
