#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["pandas==3.1.1", "pyarrow==26.0.1"]
# ///
"""Writes tests/golden/parquet/: the same small table as pandas writes it, in both common compressions, for the
reader of `--input FILE.parquet`. A nested column and a null stand in it, as in data sets of the hub.

    scripts/golden_parquet.py
"""

from pathlib import Path

import pandas

rows = pandas.DataFrame(
    {
        "source": ["One, two.", "Drei", "שלום"],
        "target": ['Eins, "zwei".', "Three\nlines", "Hello"],
        "system": ["a", "a", "b"],
        "doc": ["d", "d", None],
        "seg_id": [0, 1, 0],
        "scores": [[0.5], [], [1.0, 2.0]],
    }
)
folder = Path(__file__).parent.parent / "tests/golden/parquet"
folder.mkdir(parents=True, exist_ok=True)
for compression in ("snappy", "zstd"):
    rows.to_parquet(folder / f"{compression}.parquet", compression=compression, index=False)
