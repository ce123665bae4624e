#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["pandas==3.1.1", "pyarrow==26.0.1"]
# ///
"""Writes tests/golden/parquet/: the same small table as pandas writes it, in four compressions, for the
reader of `--input FILE.parquet`. A nested column and a null stand in it, as in data sets of the hub. `dictionary.parquet`
holds one text of 1 MiB in each of 2,000 rows, which takes 508 bytes.

    scripts/golden_parquet.py
"""

from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet

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
for compression in ("snappy", "zstd", "gzip", "lz4"):
    rows.to_parquet(folder / f"{compression}.parquet", compression=compression, index=False)

indices = pyarrow.array([0] * 2000, pyarrow.int32())
column = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(["x" * (1 << 20)]))
table = pyarrow.table({"source": column, "target": column})
options = {"compression": "zstd", "use_dictionary": True, "write_statistics": False, "store_schema": False}
pyarrow.parquet.write_table(table, folder / "dictionary.parquet", dictionary_pagesize_limit=2 << 20, **options)
