#!/usr/bin/env bash
# Tests of the Python package, against the module that `scripts/test.sh` builds together with the other tests, so that no
# dependency is compiled for it alone. What pytest needs goes into a virtual environment under target/; the tests say
# what they leave out where pandas or a notebook's kernel cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
module="$target/debug/lib_tribunal.so"
[ -e "$module" ] || module="$target/debug/lib_tribunal.dylib"
[ -e "$module" ] || { echo "error: $module is not built; hint: scripts/test.sh builds it" >&2; exit 2; }
command -v python3 >/dev/null || { echo "not checked: there is no python3 on this machine"; exit 0; }

environment="$target/python"
if [ ! -x "$environment/bin/pytest" ]; then
  python3 -m venv "$environment" || { echo "not checked: python3 cannot make a virtual environment"; exit 0; }
  "$environment/bin/pip" install --quiet pytest || { echo "not checked: pytest cannot be installed"; exit 0; }
fi
"$environment/bin/python" -c "import pandas, pyarrow, nbclient, ipykernel, mypy" 2>/dev/null ||
  "$environment/bin/pip" install --quiet pandas pyarrow nbclient nbformat ipykernel mypy ||
  echo "note: without pandas, pyarrow, nbclient, ipykernel or mypy some tests are left out"

cp "$module" python/tribunal/_tribunal.abi3.so
export PYTHONPATH="$PWD/python"
"$environment/bin/python" -m pytest -q python/tests "$@"
if "$environment/bin/python" -c "import mypy" 2>/dev/null; then
  (cd python && MYPYPATH=. "$environment/bin/python" -m mypy)
fi
