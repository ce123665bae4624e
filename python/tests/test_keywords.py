"""The types of keyword arguments name the options that the commands have."""

import re
import subprocess
import sys

import pytest
from tribunal import keywords

# Of `score`: what a judge is made of or given by other arguments, and what only a terminal has.
ELSEWHERE = {
    "source", "hypothesis", "reference", "language-pair", "docs", "input", "testset", "systems", "documents", "rated", "method",
    "model", "keep", "out", "shard", "progress", "dry-run", "device-memory", "only-system",
}
PRINTED = {"format", "help", "version"}
# Options that `--help` does not list, and other names of options.
UNLISTED = {"activations", "cpu_tier", "gpu_kernels", "kv_dtype", "no_drafts", "no_graphs", "no_prefix_cache", "batch_size"}


@pytest.mark.parametrize(
    "command, options, others",
    [
        ("score", keywords.JudgeOptions, ELSEWHERE),
        ("meta", keywords.MetaOptions, {"testset", "language-pair", "scores"}),
        ("compare", keywords.CompareOptions, ELSEWHERE),
        ("export", keywords.ExportOptions, {"as", "out"}),
    ],
)
def test_the_options_of_a_command_are_the_keys_of_its_type(command, options, others):
    said = subprocess.run([sys.executable, "-m", "tribunal", command, "--help"], capture_output=True, text=True, check=True)
    listed = {name.replace("-", "_") for name in re.findall(r"^ {2,6}(?:-\w, )?--([a-z][\w-]*)", said.stdout, re.MULTILINE)}
    assert len(listed) > 5, said.stdout
    named = set(options.__annotations__)
    elsewhere = {name.replace("-", "_") for name in others | PRINTED}
    assert listed - elsewhere - named == set(), "options without a type"
    assert named - UNLISTED - elsewhere - listed == set(), "types without an option"
