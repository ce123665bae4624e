"""Types of keyword arguments: the options of `tribunal score`, `meta`, `compare` and `export`, with underscores.

Type checkers and editors read them. The command line checks values, and `tribunal COMMAND --help` explains them; None and
False leave an option out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Union

Path = Union[str, "PathLike[str]"]
#: One value, or several.
Names = Union[str, Sequence[str]]


class JudgingOptions(TypedDict, total=False):
    """Method, models and device of a judge."""

    granularity: Literal["seg", "doc", "5doc"] | None
    preset: Literal["paper", "code", "strict"] | None
    weights: str | None
    prompts: Path | None
    shots: Path | None
    samples: int | str | None
    language_check: Literal["on", "off"] | None
    adapter: Path | None
    role: Names | Mapping[str, str] | None
    chat_template: Path | None
    device: str | None
    tensor_parallel: int | None
    dtype: Literal["auto", "bf16", "f16", "f32", "q8_0"] | None
    kv_cache: str | None
    context: int | None
    jobs: int | None
    batch: int | None
    batch_size: int | None
    threads: int | None
    # What changes speed or bits for tests alone; `--help` does not list these.
    activations: Literal["q8", "float"] | None
    cpu_tier: str | None
    gpu_kernels: Literal["auto", "new", "proven", "plain"] | None
    kv_dtype: Literal["bf16", "f16", "f32"] | None
    no_drafts: bool
    no_graphs: bool
    no_prefix_cache: bool


class JudgeOptions(JudgingOptions, total=False):
    """How translations are judged: `tribunal score`."""

    seed: int | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    limit: int | None
    subset: int | None
    retry_missing: bool
    calls: Literal["plain", "zstd", "off"] | None
    quiet: bool


class MetaOptions(TypedDict, total=False):
    """Human scores, metrics and statistics: `tribunal meta`."""

    gold: str | None
    negate: Names | None
    metrics: Names | None
    systems: Names | None
    lexical: Names | None
    reference: Names | Mapping[str, str] | None
    coverage: Literal["common", "each", "official", "lowest"] | None
    document_gold: Literal["sum", "mean"] | None
    task: str | None
    stat: Names | None
    by: str | None
    resamples: int | None
    seed: int | None
    also: Names | None
    span_f1: Names | None
    plots: Path | None


class CompareOptions(JudgingOptions, total=False):
    """What is compared, and how `hypothesis` is judged first, where it is given: `tribunal compare`."""

    source: Path | None
    hypothesis: Path | Sequence[Path] | None
    reference: Path | None
    method: str | None
    model: str | None
    out: Path | None
    baseline: str | None
    coverage: Literal["common", "each"] | None
    testset: Path | None
    language_pair: str | None
    gold: str | None
    resamples: int | None
    seed: int | None
    reliability: bool


class ExportOptions(TypedDict, total=False):
    """Names and files that a format wants: `tribunal export`."""

    name: str | None
    reference: str | None
    testset: Path | None
    threshold: float | None
    language_pair: str | None


Format = Literal["mqm-tsv", "mtme", "ratings", "pearmut", "csv", "parquet", "wmt26", "testset"]
#: One value of JSON: tables of `meta` and `compare`, as `--format json` prints them.
Json = dict[str, Any]
