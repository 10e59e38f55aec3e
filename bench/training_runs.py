# Many small trainings for a benchmark: runs `heddle train` with flags, several at a time, one thread each, and keeps a
# result.json in the folder of each run, so that an interrupted benchmark goes on where it stopped. Python 3 alone.
import concurrent.futures
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def program(name):
    path = os.path.join(ROOT, "build", name)
    if not os.access(path, os.X_OK):
        sys.exit(f"error: there is no {path}\n  hint: cmake -S . -B build -G Ninja && ninja -C build")
    return path


def check_store(path):
    if not os.path.isfile(path):
        sys.exit(f"error: there is no token store {path}\n  hint: launch/quickstart.sh makes it; or --store FILE")


def last_numbers(pattern, text, count=1):
    """Mean of the last `count` matches of the pattern's group; None without a match."""
    found = [float(x) for x in re.findall(pattern, text)[-count:]]
    return sum(found) / len(found) if found else None


def read_output(text, status):
    """What a benchmark keeps of the output of `heddle train`; overlap and share are means over the last 3 lines."""
    nats = last_numbers(r"validation after step \d+: loss ([-\d.naif]+)", text)
    bits = last_numbers(r"validation after step \d+: loss [-\d.naif]+, ([-\d.naif]+) bits per byte", text)
    fine = status == 0 and nats is not None and math.isfinite(nats)
    return {
        "status": status,
        "nats_per_token": nats if fine else None,
        "bits_per_byte": bits if fine else None,
        "train_loss": last_numbers(r"step \d+/\d+ .*? loss ([\d.]+) ", text),
        "top_expert": last_numbers(r"top expert (\d+)%", text, 3),
        "overlap": last_numbers(r"overlap ([\d.]+)", text, 3),
    }


def earlier_result(folder, flags):
    """result.json of a training that was made before with the same flags, or None."""
    result_file = os.path.join(folder, "result.json")
    if not os.path.isfile(result_file):
        return None
    with open(result_file) as file:
        result = json.load(file)
    return result if result["flags"] == flags else None


def train(folder, flags, afterwards=None):
    """One training; its result, also where it was made before. afterwards(folder): more of the result, from the run in
    folder/run, which is removed then."""
    result = earlier_result(folder, flags)
    if result is not None:
        return result
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    command = [program("heddle"), "train", "--run.directory", os.path.join(folder, "run")]
    for key, value in flags.items():
        command += [f"--{key}", str(value)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    output_file = os.path.join(folder, "output.txt")
    with open(output_file, "w") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment).returncode
    if status in (2, 4) or status < 0:
        raise RuntimeError(f"{folder}: status {status}, see {output_file}")
    with open(output_file) as output:
        result = dict(read_output(output.read(), status), flags=flags)
    if afterwards is not None:
        result.update(afterwards(folder))
    write_json(os.path.join(folder, "result.json"), result)
    shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)  # checkpoints
    return result


def train_all(folder, runs, at_once, afterwards=None):
    """runs: {name: flags}. Returns {name: result}; the first failure to run at all ends the benchmark."""
    results, start = {}, time.time()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(train, os.path.join(folder, name), flags, afterwards): name for name, flags in runs.items()}
        try:
            for done in concurrent.futures.as_completed(waiting):
                name = waiting[done]
                results[name] = result = done.result()
                bits = "diverged" if result["bits_per_byte"] is None else f"{result['bits_per_byte']:.4f} bits per byte"
                print(f"{len(results)}/{len(runs)}  {name}  {bits}  ({time.time() - start:.0f} s)", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return results


def mean_and_error(values):
    """Mean and its standard error over the values that are numbers; (None, None) where there are none."""
    values = [v for v in values if v is not None]
    if not values:
        return None, None
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, None
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))


def shown(mean, error, digits):
    if mean is None:
        return "-"
    return f"{mean:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def print_table(heading, rows):
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    for row in [heading, *rows]:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())


def write_json(path, value):
    with open(path + ".tmp", "w") as file:
        json.dump(value, file, indent=1)
    os.replace(path + ".tmp", path)
