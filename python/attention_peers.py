"""Attention's forward by this library and by others, on the same tensors, in turn, in one process.

    python3 attention_peers.py --record FILE

Needs PyTorch with a GPU. What takes part: PyTorch's scaled_dot_product_attention by its flash
kernel (FlashAttention-2), by its memory-efficient kernel, which takes masks, and by cuDNN; its
attention for packed sequences, which takes windows too; and FlashAttention-4 if flash_attn.cute
can be imported. With packed sequences, or heads that share keys and values, also this library on
as many tokens and heads without. Each implementation is first checked against a reference in f64
at sampled queries. Then they take turns, round by round. Times are the GPU's, by CUDA events, over
launches that are queued while the GPU is still busy. README.md tells more.
"""

import importlib
import math
import re
import statistics
import sys
import time
from typing import NamedTuple

import fused_attention
from peers import (
    EPSILON,
    NAMES,
    compare,
    numbers,
    parser_of,
    ratios,
    refuse_unknown,
    spread,
    take_turns,
    words,
)

CHECKED_QUERIES = 16
MASKS = ["none", "causal", "window", "bytes", "bias"]
BY_POSITION = ["none", "causal", "window"]
WINDOW = 1024


class Cell(NamedTuple):
    """A problem: `shape` is batch, heads, length, head dimension; `mask` none, causal, window
    (causal, of 1024 keys), bytes (bools that all heads share) or bias (a number for each score,
    which all batch entries share); `sharing` the query heads of each head of keys and values.
    Sequences that are `packed` lie one after the other in place of batch entries."""

    dtype: str
    shape: tuple
    mask: str
    sharing: int = 1
    packed: bool = False

    @property
    def is_causal(self):
        return self.mask in ("causal", "window")

    @property
    def label(self):
        """The mask, and what else is not plain."""
        words = [self.mask]
        if self.sharing > 1:
            words.append(f"{self.sharing} heads share")
        if self.packed:
            words.append("packed")
        return ", ".join(words)

    @property
    def operations(self):
        """As others count them: half under a causal mask, with a window its keys alone."""
        batch, heads, length, head_dim = self.shape
        pairs = length * (min(length, WINDOW) if self.mask == "window" else length)
        full = 4 * batch * heads * pairs * head_dim
        return full // 2 if self.mask == "causal" else full


def cells(options):
    for head_dim in options.head_dims:
        for length in options.lengths:
            shape = (max(1, options.tokens // length), max(1, options.width // head_dim))
            for mask in options.masks:
                yield Cell(
                    options.dtype, (*shape, length, head_dim), mask, options.sharing, options.packed
                )


class Problem:
    """A cell with its tensors, whose rows come before heads in memory."""

    def __init__(self, gpu, cell):
        torch = self.torch = gpu.torch
        self.gpu, self.cell = gpu, cell
        self.dtype = getattr(torch, NAMES[cell.dtype])
        batch, heads, length, head_dim = cell.shape

        def rows(heads):
            return gpu.empty((batch, length, heads, head_dim), self.dtype).transpose(1, 2)

        self.q, self.k, self.v = (
            rows(heads // shared).normal_() for shared in (1, cell.sharing, cell.sharing)
        )
        self.o = rows(heads)
        self.lse = gpu.empty((batch, heads, length), torch.float32)
        ends = range(0, (batch + 1) * length, length)
        self.offsets = torch.tensor(list(ends), dtype=torch.int32, device=self.q.device)
        self.keep = self.bias = self.tile = None
        if cell.mask == "bytes":
            self.keep = gpu.empty((length, length), torch.uint8).random_(0, 5).ne_(0).bool()
        if cell.mask == "bias":
            self.bias = gpu.empty((heads, length, length), self.dtype).normal_()
        self.copied = [gpu.empty((1 << 28,), torch.uint8) for _ in range(2)]

    @property
    def window(self):
        """Keys to the left and to the right of the diagonal, for those who take them so."""
        return {"none": (-1, -1), "causal": (-1, 0), "window": (WINDOW - 1, 0)}[self.cell.mask]

    def packed(self, tensor):
        """All batch entries' rows one after the other, by heads, by elements."""
        return tensor.transpose(1, 2).flatten(0, 1)

    def unpacked(self, tensor):
        batch, _, length, _ = self.cell.shape
        return tensor.unflatten(0, (batch, length)).transpose(1, 2)

    def lead(self):
        """Keeps the GPU busy while launches are queued."""
        for _ in range(3):
            self.copied[1].copy_(self.copied[0])

    def check(self, o):
        """Fails if sampled queries are wrong; else their largest relative error in norm."""
        torch = self.torch
        batch, heads, length, head_dim = self.cell.shape
        step = max(1, (length - 1) // (CHECKED_QUERIES - 1))
        rows = torch.arange(0, length, step, device=o.device)
        worst = 0.0
        for b, head in [(0, 0), (batch - 1, heads - 1), (batch // 2, heads // 2)]:
            kv_head = head // self.cell.sharing
            of_head = [self.q[b, head], self.k[b, kv_head], self.v[b, kv_head]]

            def compute(kind):
                q, k, v = (tensor.to(kind) for tensor in of_head)
                scores = q[rows] @ k.T / math.sqrt(head_dim)
                distance = rows[:, None] - torch.arange(length, device=o.device)[None, :]
                if self.cell.is_causal:
                    scores = scores.masked_fill(distance < 0, -math.inf)
                if self.cell.mask == "window":
                    scores = scores.masked_fill(distance >= WINDOW, -math.inf)
                if self.keep is not None:
                    scores = scores.masked_fill(~self.keep[rows], -math.inf)
                if self.bias is not None:
                    scores = scores + self.bias[head, rows].to(kind)
                return (torch.softmax(scores, -1) @ v).double()

            expected, same = compute(torch.float64), compute(self.dtype)
            error = (o[b, head, rows].double() - expected).norm(dim=-1)
            scale = expected.norm(dim=-1)
            bound = 2 * (same - expected).norm(dim=-1) + EPSILON[self.cell.dtype] * scale
            if not (error <= bound).all():
                wrong = rows[torch.nonzero(~(error <= bound)).flatten()[0]].item()
                raise AssertionError(f"query {wrong} of head {head} of batch entry {b} is wrong")
            worst = max(worst, (error / scale).max().item())
        return worst


def attention_of(cell):
    window = (WINDOW - 1, 0) if cell.mask == "window" else None
    return fused_attention.Attention(causal=cell.mask == "causal", window=window)


def ours(problem, device):
    tensors = (problem.q, problem.k, problem.v, problem.o)
    inputs = {"lse": problem.lse, "keep": problem.keep, "bias": problem.bias}
    if problem.cell.packed:
        # Heads before rows, without batch entries.
        tensors = [problem.packed(tensor).transpose(0, 1) for tensor in tensors]
        inputs["lse"] = problem.lse.flatten().view(problem.cell.shape[1], -1)
        sequences = (problem.offsets, problem.cell.shape[2])
        inputs |= {"query_sequences": sequences, "key_sequences": sequences}
    call = attention_of(problem.cell).forward_call(device, *tensors, **inputs)
    problem.tile = re.search(r"\btile (\S+)", call.plan())[1]

    def run(_=0):
        call()
        return problem.o

    return run


def dense(problem, device):
    """Ours, of as many tokens and heads, neither packed nor shared."""
    cell = problem.cell
    if not cell.packed and cell.sharing == 1:
        return None
    k, v = (
        tensor.transpose(1, 2).repeat_interleave(cell.sharing, 2).transpose(1, 2)
        for tensor in (problem.k, problem.v)
    )
    inputs = {"lse": problem.lse, "keep": problem.keep, "bias": problem.bias}
    call = attention_of(cell).forward_call(device, problem.q, k, v, problem.o, **inputs)

    def run(_=0):
        call()
        return problem.o

    return run


def torch_attention(problem, backend, masks):
    """PyTorch's, by the backend of this name, if it takes the problem's mask."""
    cell = problem.cell
    if cell.mask not in masks or cell.packed:
        return None
    attention = importlib.import_module("torch.nn.attention")
    backend = getattr(attention.SDPBackend, backend)
    function = problem.torch.nn.functional.scaled_dot_product_attention
    mask = problem.keep
    if problem.bias is not None:
        mask = problem.bias[None].expand(problem.cell.shape[0], -1, -1, -1)
    settings = {
        "attn_mask": mask,
        "is_causal": cell.mask == "causal",
        "enable_gqa": cell.sharing > 1,
    }

    def run(_=0):
        with attention.sdpa_kernel(backend), problem.torch.no_grad():
            return function(problem.q, problem.k, problem.v, **settings)

    return run


def torch_varlen(problem, _):
    """PyTorch's FlashAttention-2 for packed sequences, which takes windows too."""
    cell = problem.cell
    if cell.mask not in BY_POSITION or not (cell.packed or cell.mask == "window"):
        return None
    function = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    q, k, v = (problem.packed(tensor) for tensor in (problem.q, problem.k, problem.v))
    sequences = (problem.offsets, problem.offsets, cell.shape[2], cell.shape[2])
    settings = {"window_size": problem.window}
    if cell.sharing > 1:
        settings["enable_gqa"] = True

    def run(_=0):
        with problem.torch.no_grad():
            return problem.unpacked(function(q, k, v, *sequences, **settings))

    return run


def fa4(problem, _):
    cell = problem.cell
    if cell.mask not in BY_POSITION:
        return None
    settings = {"causal": cell.mask == "causal"}
    if cell.mask == "window":
        settings["window_size"] = problem.window
    tensors = (problem.q, problem.k, problem.v)
    module = importlib.import_module("flash_attn.cute")
    if cell.packed:
        function, arrange = module.flash_attn_varlen_func, problem.unpacked
        q, k, v = (problem.packed(tensor) for tensor in tensors)
        settings |= {name: problem.offsets for name in ("cu_seqlens_q", "cu_seqlens_k")}
        settings |= {name: cell.shape[2] for name in ("max_seqlen_q", "max_seqlen_k")}
    else:
        function = module.flash_attn_func
        q, k, v = (tensor.transpose(1, 2) for tensor in tensors)

        def arrange(o):
            return o.transpose(1, 2)

    def run(_=0):
        o = function(q, k, v, **settings)
        return arrange(o[0] if isinstance(o, tuple) else o)

    return run


IMPLEMENTATIONS = {
    "ours": ours,
    "dense": dense,
    "torch flash": lambda problem, _: torch_attention(
        problem, "FLASH_ATTENTION", ["none", "causal"]
    ),
    "torch efficient": lambda problem, _: torch_attention(
        problem, "EFFICIENT_ATTENTION", ["bytes", "bias"]
    ),
    "torch cudnn": lambda problem, _: torch_attention(
        problem, "CUDNN_ATTENTION", ["none", "causal"]
    ),
    "torch varlen": torch_varlen,
    "fa4": fa4,
}
PEERS = [name for name in IMPLEMENTATIONS if name != "ours"]


def measure(gpu, cell, options):
    """A cell's record."""
    problem = Problem(gpu, cell)
    runs, errors, peaks = {}, {}, {}
    for name in ["ours", *options.peers]:
        try:
            run = IMPLEMENTATIONS[name](problem, gpu.device)
            if run is None:
                continue
            problem.o.fill_(math.nan)
            errors[name] = problem.check(run())
            peaks[name] = gpu.peak(run)
            runs[name] = run
        except Exception as error:
            if name == "ours":
                raise
            print(f"    {name}: not measured: {type(error).__name__}: {error}")
    microseconds = take_turns(gpu, runs, problem.lead, options)
    batch, heads, length, _ = cell.shape
    return {
        "direction": "attention_forward",
        "dtype": cell.dtype,
        "rows": batch * heads * length,
        "columns": length,
        "shape": list(cell.shape),
        "mask": cell.label,
        "tile": problem.tile,
        "bytes": sum(t.numel() for t in (problem.q, problem.k, problem.v, problem.o))
        * problem.q.element_size(),
        "checked_error": errors["ours"],
        "peak_bytes": peaks,
        "microseconds": microseconds,
    }


def report(cell, operations):
    """Prints a cell's record."""
    times = cell["microseconds"]
    for name, values in times.items():
        speed = operations / statistics.median(values) / 1e6
        own = f"{name} ({cell['tile']})" if name == "ours" else name
        line = f"    {own:24} {statistics.median(values):9.1f} us {speed:6.1f} TFLOP/s"
        line += f" {cell['peak_bytes'][name] / 1e6:8.1f} MB"
        if name != "ours":
            line += f"   ours is {spread(ratios(times, 'ours', name))} times as fast"
        print(line)


def summary(records):
    """The lines that tell how we compare with each peer: for each head dimension and mask."""
    groups = {}
    for cell in records:
        for peer in cell["microseconds"]:
            if peer != "ours":
                key = (cell["shape"][3], cell["mask"], peer)
                medians = statistics.median(ratios(cell["microseconds"], "ours", peer))
                groups.setdefault(key, []).append(medians)
    for (head_dim, mask, peer), medians in groups.items():
        line = f"D {head_dim}, mask {mask}, over {peer}: {statistics.geometric_mean(medians):.3f}"
        yield line + f" ({min(medians):.3f} .. {max(medians):.3f})"


def parse(arguments):
    parser = parser_of(__doc__, PEERS, rounds=5, milliseconds=25)
    parser.add_argument("--masks", type=words, default="none,causal", help=", ".join(MASKS))
    parser.add_argument("--lengths", type=numbers, default="1024,2048,4096,8192,16384")
    parser.add_argument("--head-dims", type=numbers, default="64,128")
    parser.add_argument("--tokens", type=int, default=16384, help="of all sequences")
    parser.add_argument("--width", type=int, default=2048, help="elements of all heads")
    parser.add_argument("--sharing", type=int, default=1, help="query heads to a K/V head")
    parser.add_argument("--packed", action="store_true", help="sequences in one row of tokens")
    parser.add_argument("--dtype", choices=["bf16", "f16"], default="bf16")
    options = parser.parse_args(arguments)
    refuse_unknown(
        parser, [("masks", options.masks, MASKS), ("peers", options.peers, PEERS)]
    )
    if options.rounds < 1 or min([*options.lengths, *options.head_dims]) < 1:
        parser.error("rounds, lengths and head dimensions are at least 1")
    if options.sharing < 1 or any(
        max(1, options.width // head_dim) % options.sharing for head_dim in options.head_dims
    ):
        parser.error("as many query heads as share a K/V head have to divide all of them")
    if options.packed and not set(options.masks) <= set(BY_POSITION):
        parser.error(f"packed sequences go with the masks {', '.join(BY_POSITION)}")
    return options


def main(arguments=None, gpu=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    start = time.monotonic()

    def name(cell):
        return f"{cell.dtype} {' x '.join(map(str, cell.shape))} mask {cell.label}"

    records, failures = compare(
        "attention peers",
        "attention_peers.py",
        arguments,
        options,
        gpu,
        [(name(cell), cell) for cell in cells(options)],
        lambda gpu, cell: measure(gpu, cell, options),
        lambda record, cell: report(record, cell.operations),
    )
    print("\n".join(summary(records)))
    print(f"{time.monotonic() - start:.0f} s in all")
    if failures:
        sys.exit("failed: " + ", ".join(failures))


if __name__ == "__main__":
    main()
