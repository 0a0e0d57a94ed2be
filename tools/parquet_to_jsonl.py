#!/usr/bin/env python3
"""Turns Parquet files into JSONL, for a Trine that was built without its Parquet part. Needs pyarrow.

Usage: parquet_to_jsonl.py IN.parquet... OUT.jsonl [--column text]
"""

import argparse
import json

import pyarrow.parquet as parquet


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="+", metavar="IN.parquet")
    parser.add_argument("output", metavar="OUT.jsonl")
    parser.add_argument("--column", default="text", help="the column of strings to keep, under the same name")
    options = parser.parse_args()
    with open(options.output, "w", encoding="utf-8") as output:
        for path in options.inputs:
            for batch in parquet.ParquetFile(path).iter_batches(columns=[options.column]):
                for value in batch.column(0).to_pylist():
                    output.write(json.dumps({options.column: value}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
