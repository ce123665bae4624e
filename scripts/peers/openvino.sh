#!/usr/bin/env bash
# Our engine and OpenVINO GenAI on the same questions, prompts and schema: segments per second of both.
#
#   scripts/peers/openvino.sh --testset DIR -l en-de --systems ONLINE-B [--groups 3] [--model CARD] [--pairs 3] [--json]
#   scripts/peers/openvino.sh --pace [--model CARD] [--prompt 512] [--answer 64] [--sequences 1,8,16] [--pairs 3] [--json]
#
# The second form compares plain tokens per second. OpenVINO comes from PyPI into target/peers. TRIBUNAL names our program, with tribunal-bench beside it; default: target/release/tribunal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

TRIBUNAL="${TRIBUNAL:-target/release/tribunal}"
[ -x "$TRIBUNAL" ] && [ -x "$TRIBUNAL-bench" ] ||
  die "there is no \`$TRIBUNAL\` with \`tribunal-bench\` beside it; hint: cargo build --release -p tribunal -p tribunal-bench"
environment="$PWD/target/peers/openvino"
"$environment/bin/python" -c "import openvino_genai" 2>/dev/null || {
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet openvino-genai numpy || die "openvino-genai cannot be installed from PyPI"
}
exec "$environment/bin/python" scripts/peers/run_openvino.py --tribunal "$TRIBUNAL" "$@"
