"""Runs the reference on the inputs of stored cases and compares everything that they hold (docs/model_family.md section 8).

    /usr/bin/python3 tests/reference/check_golden.py tests/golden_family/*

Prints, per case, the worst error divided by its tolerance. Exit status 1 if one exceeds 1.
"""

import os
import sys

import torch

import case
import case_file
import compare
import config as configuration
from moe import Gaps


def check(folder, dtype=torch.float64):
    config = configuration.read(os.path.join(folder, "config.json"))
    stored = case_file.read(os.path.join(folder, "case.h5"))
    return compare.ratios(case.compute(config, stored, dtype, Gaps()), stored)


def main(folders):
    torch.set_num_threads(1)
    failed = []
    for folder in folders:
        ratios = check(folder)
        name, worst = max(ratios.items(), key=lambda item: item[1])
        print(f"{os.path.basename(os.path.normpath(folder)):32} {len(ratios):4} compared, worst {worst:8.2g} of its tolerance: {name}")
        if not worst <= 1:
            failed.append(folder)
            for name, ratio in sorted(ratios.items(), key=lambda item: -item[1])[:12]:
                print(f"    {ratio:10.3g}  {name}")
    print(f"{len(folders) - len(failed)} of {len(folders)} cases pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
