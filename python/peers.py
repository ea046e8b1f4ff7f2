"""Softmax by this library and by others, on the same tensors, in turn, in one process.

    python3 peers.py --record FILE

Needs PyTorch with a GPU; quack takes part if it can be imported. Each implementation is first
checked against a reference in f64, ours and quack on outputs that were poisoned before. Then they
take turns, round by round, with a device-to-device copy among them: a GPU's speed drifts, so only
ratios within a round mean much. Times are the GPU's, by CUDA events, over launches that are queued
while the GPU is still busy, on tensors larger than its cache. README.md tells more.
"""

import argparse
import importlib
import importlib.metadata
import json
import math
import re
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import fused_attention

LENGTHS = [512 << i for i in range(9)]
MASKED_LENGTHS = [1024, 2048, 4096]

# What scores are multiplied by where there is a mask. Without one the peers have no scale.
MASKED_SCALE = 0.125

HEADS = 8
CHECKED_ROWS = 64
BYTES = {"bf16": 2, "f16": 2, "f32": 4}
NAMES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}

# Half a unit in the last place, relative.
EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-20}


class Cell(NamedTuple):
    """A problem: `direction` is forward or backward (from probabilities), `mask` none, bytes (a
    bool for each element) or heads (bools that all heads share)."""

    direction: str
    dtype: str
    shape: tuple
    mask: str

    @property
    def columns(self):
        return self.shape[-1]

    @property
    def rows(self):
        return math.prod(self.shape[:-1])

    @property
    def mask_shape(self):
        if self.mask == "none":
            return None
        batch, heads, queries, keys = self.shape
        return (batch, 1 if self.mask == "heads" else heads, queries, keys)

    @property
    def bytes(self):
        """What must be moved: each input, distinct byte of a mask and output once."""
        tensors = 3 if self.direction == "backward" else 2
        mask = math.prod(self.mask_shape) if self.mask_shape else 0
        return tensors * math.prod(self.shape) * BYTES[self.dtype] + mask


def cells(options):
    """The problems that are asked for; without lengths and types, the standard ones."""
    for direction in options.direction:
        for mask in options.masks:
            if direction == "backward" and mask != "none":
                continue
            is_masked = mask != "none"
            dtypes = options.dtypes or (["bf16", "f16"] if is_masked else ["bf16"])
            for dtype in dtypes:
                for columns in options.lengths or (MASKED_LENGTHS if is_masked else LENGTHS):
                    shape = (max(1, options.elements // columns), columns)
                    if is_masked:
                        batch = max(1, options.elements // (HEADS * columns * columns))
                        shape = (batch, HEADS, columns, columns)
                    yield Cell(direction, dtype, shape, mask)


def sets_for(size, cache):
    """How many sets of tensors take turns, so that none is left in the cache from before."""
    return max(1, math.ceil(4 * cache / size))


def launches_for(microseconds, milliseconds):
    """How many launches take about so many milliseconds."""
    return min(200, max(2, round(1000 * milliseconds / microseconds)))


def in_turn(names, round_number):
    """The implementations' order in a round: each begins as often as any other."""
    start = round_number % len(names)
    return names[start:] + names[:start]


def take_turns(gpu, runs, lead, options, outputs=1):
    """The microseconds of a launch of each function in `runs`, which takes the number of one of
    `outputs`, round by round."""
    launches = {}
    for name, run in runs.items():
        for i in range(outputs):
            run(i)
        launches[name] = launches_for(gpu.time(run, 2, lead), options.milliseconds)
    microseconds = {name: [] for name in runs}
    for round_number in range(options.rounds):
        for name in in_turn(list(runs), round_number):
            microseconds[name].append(gpu.time(runs[name], launches[name], lead))
    return microseconds


def ratios(microseconds, of, over):
    """How many times as fast as another an implementation is, round by round."""
    return [b / a for a, b in zip(microseconds[of], microseconds[over], strict=True)]


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} .. {max(values):.3f})"


def command(arguments, script="peers.py"):
    """The command line as it counts for a measurement: not where files are."""
    kept, skip = [script], False
    for word in arguments:
        name = word.split("=")[0]
        if not skip and name not in ("--record", "--library"):
            kept.append(word)
        skip = word in ("--record", "--library")
    return " ".join(kept)


def card():
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu"
    try:
        query = ["nvidia-smi", "--id=0", query, "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def versions(library):
    found = {"fused-attention": library.version, "python": sys.version.split()[0]}
    for package in ("torch", "triton", "quack-kernels", "nvidia-cutlass-dsl"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


class Gpu:
    """The GPU, by PyTorch."""

    def __init__(self, library):
        import torch

        self.torch = torch
        self.device = library.cuda(torch.cuda.current_device())
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.cache = getattr(properties, "L2_cache_size", 64 << 20)

    def empty(self, shape, dtype):
        return self.torch.empty(shape, dtype=dtype, device="cuda")

    def synchronize(self):
        self.torch.cuda.synchronize()

    def time(self, run, launches, lead):
        """Microseconds of a launch. `lead` keeps the GPU busy while the launches are queued."""
        start, end = self.events
        lead()
        start.record()
        for i in range(launches):
            run(i)
        end.record()
        end.synchronize()
        return 1000 * start.elapsed_time(end) / launches

    def peak(self, run):
        """The device memory that a run needs beyond what there was."""
        cuda = self.torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        kept = run()
        cuda.synchronize()
        del kept
        return cuda.max_memory_allocated() - before


class Problem:
    """A cell with its tensors."""

    def __init__(self, gpu, cell):
        torch = self.torch = gpu.torch
        self.gpu, self.cell = gpu, cell
        self.dtype = getattr(torch, NAMES[cell.dtype])
        self.scale = 1.0 if cell.mask == "none" else MASKED_SCALE
        count = sets_for(cell.bytes, gpu.cache)
        self.x = [self.normal() for _ in range(count)]
        self.out = [self.empty() for _ in range(count)]
        self.mask = [self.random_mask() for _ in range(count)] if cell.mask_shape else None
        self.p = self.dp = self.tile = None
        if cell.direction == "backward":
            self.dp = [self.normal() for _ in range(count)]
            # In place of x, which the backward does not need.
            self.p = self.x
            for p in self.p:
                for rows in p.split(max(1, cell.rows // 8)):
                    rows.copy_(torch.softmax(rows.float(), -1))
        half = (cell.bytes // 2,)
        self.copied = [gpu.empty(half, torch.uint8) for _ in range(2)]
        for memory in self.copied:
            memory.random_()

    def empty(self):
        return self.gpu.empty(self.cell.shape, self.dtype)

    def normal(self):
        return self.empty().normal_()

    def random_mask(self):
        """Hides a third."""
        mask = self.gpu.empty(self.cell.mask_shape, self.torch.uint8).random_(0, 3)
        return mask.eq_(0).view(self.torch.bool)

    def copy(self, _=0):
        self.copied[1].copy_(self.copied[0])

    def lead(self):
        """Keeps the GPU busy while launches are queued, and leaves the same in its cache."""
        self.copy()
        self.copy()

    def input_bytes(self):
        inputs = [self.dp, self.p] if self.dp else [self.x, self.mask]
        return sum(i[0].numel() * i[0].element_size() for i in inputs if i)

    def expected(self, rows):
        """What is right in rows of the first set: in f64, and in f32 rounded to the type."""
        torch, cell = self.torch, self.cell
        columns = cell.columns

        def compute(kind):
            def picked(tensors):
                return tensors[0].reshape(-1, columns)[rows].to(kind)

            if self.dp:
                p, dp = picked(self.p), picked(self.dp)
                return p * (dp - (p * dp).sum(-1, keepdim=True))
            scores = picked(self.x) * self.scale
            if self.mask:
                mask = self.mask[0].expand(cell.shape).reshape(-1, columns)
                scores = scores.masked_fill(mask[rows], -math.inf)
            return torch.softmax(scores, -1)

        return compute(torch.float64), compute(torch.float32).to(self.dtype).double()

    def check(self, out):
        """Fails if a result for the first set is wrong; else the largest relative error of a row,
        in norm, of those that were compared."""
        torch, cell = self.torch, self.cell
        if out.shape != self.x[0].shape or out.dtype != self.dtype:
            raise AssertionError(f"a result of shape {tuple(out.shape)} and type {out.dtype}")
        out = out.reshape(-1, cell.columns)
        for part in out.split(max(1, cell.rows // 8)):
            # Probabilities of a row sum to 1, gradients to 0.
            total = 0.0 if self.dp else 1.0
            sums = part.sum(-1, dtype=torch.float32)
            if not (sums - total).abs().max() < 0.05:
                raise AssertionError("a row is not written, or is NaN, or has a wrong sum")
        step = max(1, (cell.rows - 1) // (CHECKED_ROWS - 1))
        rows = torch.arange(0, cell.rows, step, device=out.device)
        rows[-1] = cell.rows - 1
        expected, same = self.expected(rows)
        found = out[rows].double()
        error, scale = (found - expected).norm(dim=-1), expected.norm(dim=-1)
        bound = 2 * (same - expected).norm(dim=-1) + EPSILON[cell.dtype] * scale
        wrong = torch.nonzero(~(error <= bound)).flatten().tolist()
        if wrong:
            row = wrong[0]
            raise AssertionError(
                f"row {rows[row].item()} is off by {error[row].item():.3g} in norm, "
                f"more than {bound[row].item():.3g}"
            )
        return (error / scale.clamp_min(1e-30)).max().item()


def ours(problem, device):
    softmax = fused_attention.Softmax(scale=problem.scale)
    calls = []
    for i, out in enumerate(problem.out):
        if problem.dp:
            calls.append(softmax.backward_call(device, problem.dp[i], out, p=problem.p[i]))
        else:
            mask = problem.mask[i] if problem.mask else None
            calls.append(softmax.forward_call(device, problem.x[i], out, exclude=mask))
    problem.tile = re.search(r"\btile (\S+)", calls[0].plan())[1]

    def run(i=0):
        calls[i % len(calls)]()
        return problem.out[i % len(calls)]

    def fresh():
        if problem.dp:
            return softmax.backward(device, problem.dp[0], p=problem.p[0])
        mask = problem.mask[0] if problem.mask else None
        return softmax.forward(device, problem.x[0], exclude=mask)

    return run, fresh


def quack(problem, _):
    if problem.mask:
        return None
    # The package's attribute of this name is a function.
    quack = importlib.import_module("quack.softmax")
    count = len(problem.out)

    # The functions below the public ones, which take the output too.
    def run(i=0):
        i %= count
        if problem.dp:
            quack._softmax_backward(problem.dp[i], problem.p[i], problem.out[i])
        else:
            quack._softmax_fwd(problem.x[i], problem.out[i])
        return problem.out[i]

    def fresh():
        if problem.dp:
            return quack.softmax_bwd(problem.dp[0], problem.p[0])
        return quack.softmax_fwd(problem.x[0])

    return run, fresh


def torch_softmax(problem, _):
    torch, count = problem.torch, len(problem.out)
    if problem.mask:
        return None

    def run(i=0):
        i %= count
        if problem.dp:
            backward = torch.ops.aten._softmax_backward_data
            return backward(problem.dp[i], problem.p[i], -1, problem.dtype)
        return torch.softmax(problem.x[i], -1)

    return run, run


def scale_mask_softmax(problem, compiled):
    torch, count, scale = problem.torch, len(problem.out), problem.scale
    if not problem.mask:
        return None

    def softmax(x, mask):
        return torch.softmax((x * scale).masked_fill(mask, -math.inf), -1)

    if compiled:
        # Otherwise the number of shapes that it compiles for is limited.
        torch._dynamo.reset()
        softmax = torch.compile(softmax, dynamic=False)

    def run(i=0):
        return softmax(problem.x[i % count], problem.mask[i % count])

    return run, run


IMPLEMENTATIONS = {
    "ours": ours,
    "quack": quack,
    "torch": torch_softmax,
    "torch eager": lambda problem, _: scale_mask_softmax(problem, False),
    "torch compiled": lambda problem, _: scale_mask_softmax(problem, True),
}
PEERS = [name for name in IMPLEMENTATIONS if name != "ours"]


def measure(gpu, cell, options, preparing):
    """A cell's record; adds to `preparing` the seconds of first calls, by implementation."""
    problem = Problem(gpu, cell)
    runs, errors, peaks = {"copy": problem.copy}, {}, {}
    for name in ["ours", *options.peers]:
        start = time.monotonic()
        try:
            implementation = IMPLEMENTATIONS[name](problem, gpu.device)
            if implementation is None:
                continue
            run, fresh = implementation
            for out in problem.out:
                out.fill_(math.nan)
            errors[name] = problem.check(run())
            peaks[name] = problem.input_bytes() + gpu.peak(fresh)
            runs[name] = run
        except Exception as error:
            if name == "ours":
                raise
            print(f"    {name}: not measured: {type(error).__name__}: {error}")
        preparing[name] = preparing.get(name, 0.0) + time.monotonic() - start
    microseconds = take_turns(gpu, runs, problem.lead, options, len(problem.out))
    return {
        "direction": cell.direction,
        "dtype": cell.dtype,
        "rows": cell.rows,
        "columns": cell.columns,
        "shape": list(cell.shape) if len(cell.shape) > 2 else [],
        "mask": cell.mask,
        "tile": problem.tile,
        "bytes": cell.bytes,
        "checked_error": errors["ours"],
        "peak_bytes": peaks,
        "microseconds": microseconds,
    }


def report(cell):
    """Prints a cell's record."""
    times = cell["microseconds"]
    for name, values in times.items():
        speed = cell["bytes"] / statistics.median(values) / 1e6
        own = f"{name} ({cell['tile']})" if name == "ours" else name
        line = f"    {own:22} {statistics.median(values):9.1f} us {speed:6.2f} TB/s"
        if name in cell["peak_bytes"]:
            line += f" {cell['peak_bytes'][name] / 1e9:6.2f} GB"
        if name != "ours":
            line += f"   ours is {spread(ratios(times, 'ours', name))} times as fast"
        print(line)


def summary(records):
    """The lines that tell how we compare with each peer: for each direction and mask, the
    geometric mean of the medians, and the cells that are slower in every round."""
    groups = {}
    for cell in records:
        for peer in cell["microseconds"]:
            if peer != "ours":
                key = (cell["direction"], cell["mask"], peer)
                groups.setdefault(key, []).append(cell)
    for (direction, mask, peer), group in groups.items():
        speedups = [ratios(cell["microseconds"], "ours", peer) for cell in group]
        medians = [statistics.median(values) for values in speedups]
        line = f"{direction}, mask {mask}, over {peer}: {statistics.geometric_mean(medians):.3f}"
        line += f" ({min(medians):.3f} .. {max(medians):.3f})"
        slower = [
            f"{cell['dtype']} {cell['columns']}"
            for cell, values in zip(group, speedups)
            if max(values) < 0.98
        ]
        yield line + (f"; wholly below 0.98: {', '.join(slower)}" if slower else "")


def words(text):
    return [word for word in text.split(",") if word]


def numbers(text):
    return [int(word) for word in words(text)]


def parser_of(text, peers, rounds, milliseconds):
    """A parser of what every comparison with `peers` takes, which `text` describes."""
    parser = argparse.ArgumentParser(
        description=text.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--peers", type=words, default=",".join(peers))
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument(
        "--milliseconds",
        type=float,
        default=milliseconds,
        help="of an implementation in a round, about",
    )
    parser.add_argument("--library", type=Path, help="libfused_attention.so")
    parser.add_argument("--record", type=Path, help="where to write the measurements, as JSON")
    return parser


def refuse_unknown(parser, lists):
    """Ends with an error if a list, given as its name, its values and the known ones, has others."""
    for name, values, known in lists:
        for value in values:
            if value not in known:
                parser.error(f"--{name}: {value!r} is not one of {', '.join(known)}")


def compare(benchmark, script, arguments, options, gpu, cells, measure, report):
    """Measures `cells`, each a name and what `measure` takes after the GPU, and tells each by
    `report`. Returns the records, which are written if the options say where, and the names of
    those that failed."""
    library = fused_attention.Library(options.library)
    record = {
        "benchmark": benchmark,
        "card": card(),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": command(arguments, script),
        "versions": versions(library),
        "cells": [],
    }
    gpu = gpu or Gpu(library)
    print(f"{record['card']}, {record['date']}: {gpu.device.name}, {record['versions']}")
    failures = []
    for name, cell in cells:
        print(name, flush=True)
        try:
            record["cells"].append(measure(gpu, cell))
            report(record["cells"][-1], cell)
        except Exception as error:
            failures.append(name)
            print(f"    FAILED: {type(error).__name__}: {error}")
    if options.record and record["cells"]:
        options.record.write_text(json.dumps(record, indent=2) + "\n")
    return record["cells"], failures


def parse(arguments):
    parser = parser_of(__doc__, PEERS, rounds=7, milliseconds=2.5)
    parser.add_argument("--direction", type=words, default="forward,backward")
    parser.add_argument("--masks", type=words, default="none,heads", help="none, bytes, heads")
    parser.add_argument(
        "--lengths",
        type=numbers,
        help="columns; if not given 512 to 131072 without a mask, 1024 to 4096 with one",
    )
    parser.add_argument(
        "--dtypes", type=words, help="bf16, f16, f32; if not given bf16, with a mask f16 too"
    )
    parser.add_argument("--elements", type=int, default=1 << 28, help="of x, about")
    options = parser.parse_args(arguments)
    refuse_unknown(
        parser,
        [
            ("direction", options.direction, ["forward", "backward"]),
            ("masks", options.masks, ["none", "bytes", "heads"]),
            ("dtypes", options.dtypes or [], list(BYTES)),
            ("peers", options.peers, PEERS),
        ],
    )
    if options.rounds < 1 or min(options.lengths or [1]) < 1:
        parser.error("rounds and lengths are at least 1")
    return options


def main(arguments=None, gpu=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    start = time.monotonic()
    preparing = {}

    def name(cell):
        shape = " x ".join(map(str, cell.shape))
        return f"{cell.direction} {cell.dtype} {shape} mask {cell.mask}"

    records, failures = compare(
        "softmax peers",
        "peers.py",
        arguments,
        options,
        gpu,
        [(name(cell), cell) for cell in cells(options)],
        lambda gpu, cell: measure(gpu, cell, options, preparing),
        lambda record, _: report(record),
    )
    print("\n".join(summary(records)))
    first = ", ".join(f"{name} {seconds:.0f}" for name, seconds in preparing.items())
    print(f"{time.monotonic() - start:.0f} s in all; compiling and checking, in s: {first}")
    if failures:
        sys.exit("failed: " + ", ".join(failures))


if __name__ == "__main__":
    main()
