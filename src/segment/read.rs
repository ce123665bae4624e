//! Readers: parallel text, JSONL, TSV, mt-metrics-eval folders.
