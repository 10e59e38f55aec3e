"""The HDF5 file of a reference case: docs/model_family.md section 7.

In memory a case is a flat dictionary "forward/loss" -> array. Attributes stand behind an @: "grads@loss".
"""

import h5py
import numpy as np


def read(path):
    contents = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            contents[name] = item[()]
        for key, value in item.attrs.items():
            contents[f"{name}@{key}"] = value

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return contents


def write(path, contents):
    """Contiguous little-endian datasets, in the order of their names."""
    with h5py.File(path, "w") as file:
        for name in sorted(contents):
            value = np.asarray(contents[name])
            value = value.astype(value.dtype.newbyteorder("<"))
            if "@" in name:
                group, key = name.split("@")
                file.require_group(group).attrs[key] = value
            else:
                file.create_dataset(name, data=value)
