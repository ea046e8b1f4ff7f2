"""Scaled masked softmax and attention on tensors of PyTorch, or of anything that looks like them, by
the C interface (include/fused_attention.h). Needs nothing but Python.

    import fused_attention

    library = fused_attention.Library("target/release/libfused_attention.so")
    device = library.cuda(0)
    softmax = fused_attention.Softmax(scale=0.125, causal=True)
    y = softmax.forward(device, x, exclude=mask)  # a tensor like x
    dx = softmax.backward(device, dp, p=y)
    attention = fused_attention.Attention(causal=True)
    o = attention.forward(device, q, k, v)  # of (batch, heads, rows, elements)

A call is enqueued on PyTorch's current stream, allocates nothing but the result, and never waits.
"Plan" a call to load its kernel ahead, for instance before a CUDA graph is captured:

    call = softmax.forward_call(device, x, y, exclude=mask)
    print(call.plan())  # which kernel, and why
    call()              # as often as wanted, on the same tensors

A tensor is anything with data_ptr(), shape, stride() in elements and a dtype whose name ends in
one of DTYPES; masks are bool or uint8, lengths, offsets and bank indices int32, seeds int64.
"""

import ctypes
import os
import sys
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

MAX_RANK = 8

# The names of element types, as PyTorch and numpy have them, and the numbers of fa_dtype.
DTYPES = {
    "float16": 1,
    "bfloat16": 2,
    "float32": 3,
    "float64": 4,
    "uint8": 5,
    "bool": 5,
    "int32": 6,
    "int64": 7,
}
EXCLUDE, KEEP = 1, 2
PER_BATCH, PER_ROW = 1, 2
DIAGONALS = {"bottom right": 0, "top left": 1}


class FusedAttentionError(RuntimeError):
    """A call that was refused, or failed; `status` is the name of its fa_status."""

    def __init__(self, status, message):
        super().__init__(f"{message} ({status})")
        self.status = status


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("pointer", c_void_p),
        ("dtype", c_uint32),
        ("rank", c_uint32),
        ("shape", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
    ]


class _Growing(ctypes.Structure):
    """A struct that tells the library its size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class _Options(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("scale", c_double),
        ("is_causal", c_uint32),
        ("diagonal", c_uint32),
        ("has_window", c_uint32),
        ("reserved", c_uint32),
        ("window_left", c_int64),
        ("window_right", c_int64),
    ]


class _Mask(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("bytes", POINTER(_Tensor)),
        ("additive", POINTER(_Tensor)),
        ("lengths", POINTER(_Tensor)),
        ("bank_index", POINTER(_Tensor)),
        ("polarity", c_uint32),
        ("lengths_per", c_uint32),
    ]


class _Forward(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("x", POINTER(_Tensor)),
        ("y", POINTER(_Tensor)),
        ("lse", POINTER(_Tensor)),
        ("scale", POINTER(_Tensor)),
        ("mask", POINTER(_Mask)),
    ]


class _Backward(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("p", POINTER(_Tensor)),
        ("x", POINTER(_Tensor)),
        ("dp", POINTER(_Tensor)),
        ("dx", POINTER(_Tensor)),
        ("scale", POINTER(_Tensor)),
        ("mask", POINTER(_Mask)),
    ]


class _AttentionOptions(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("scale", c_double),
        ("has_scale", c_uint32),
        ("is_causal", c_uint32),
        ("diagonal", c_uint32),
        ("has_window", c_uint32),
        ("window_left", c_int64),
        ("window_right", c_int64),
        ("softcap", c_double),
        ("dropout", c_double),
    ]


class _Sequences(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("offsets", POINTER(_Tensor)),
        ("longest", c_int64),
    ]


class _AttentionForward(_Growing):
    _fields_ = [
        ("struct_size", c_size_t),
        ("q", POINTER(_Tensor)),
        ("k", POINTER(_Tensor)),
        ("v", POINTER(_Tensor)),
        ("o", POINTER(_Tensor)),
        ("lse", POINTER(_Tensor)),
        ("scale", POINTER(_Tensor)),
        ("mask", POINTER(_Mask)),
        ("query_lengths", POINTER(_Tensor)),
        ("query_sequences", POINTER(_Sequences)),
        ("key_sequences", POINTER(_Sequences)),
        ("slopes", POINTER(_Tensor)),
        ("seed_tensor", POINTER(_Tensor)),
        ("offset_tensor", POINTER(_Tensor)),
        ("seed", c_uint64),
        ("offset", c_uint32),
        ("has_seed", c_uint32),
    ]


class Library:
    """The shared library: from `path`, else from the environment variable FUSED_ATTENTION_LIBRARY,
    else from where a bundle or a build of the repository has it."""

    def __init__(self, path=None):
        path = path or os.environ.get("FUSED_ATTENTION_LIBRARY") or _find()
        self._c = c = ctypes.CDLL(str(path))
        text = [c_char_p, c_size_t, POINTER(c_size_t)]
        arguments = {
            "fa_device_create_cuda": [c_uint32, POINTER(c_void_p)],
            "fa_device_create_emulator": [POINTER(c_void_p)],
            "fa_device_describe": [c_void_p, *text],
            "fa_emulator_allocate": [c_void_p, c_size_t, POINTER(c_void_p)],
            "fa_softmax_forward": [c_void_p, POINTER(_Options), POINTER(_Forward), c_void_p],
            "fa_softmax_forward_plan": [c_void_p, POINTER(_Options), POINTER(_Forward), *text],
            "fa_softmax_backward": [c_void_p, POINTER(_Options), POINTER(_Backward), c_void_p],
            "fa_softmax_backward_plan": [c_void_p, POINTER(_Options), POINTER(_Backward), *text],
            "fa_attention_forward": [
                c_void_p,
                POINTER(_AttentionOptions),
                POINTER(_AttentionForward),
                c_void_p,
            ],
            "fa_attention_forward_plan": [
                c_void_p,
                POINTER(_AttentionOptions),
                POINTER(_AttentionForward),
                *text,
            ],
        }
        for name, types in arguments.items():
            function = getattr(c, name)
            function.argtypes, function.restype = types, c_int32
        for name, types, result in [
            ("fa_device_destroy", [c_void_p], None),
            ("fa_emulator_free", [c_void_p], None),
            ("fa_last_error_message", [], c_char_p),
            ("fa_status_name", [c_int32], c_char_p),
            ("fa_version", [], c_char_p),
        ]:
            function = getattr(c, name)
            function.argtypes, function.restype = types, result

    @property
    def version(self):
        return self._c.fa_version().decode()

    def cuda(self, ordinal=0):
        """The GPU of this number, of the CUDA driver's numbering."""
        return Device(self, lambda device: self._c.fa_device_create_cuda(ordinal, device))

    def emulator(self):
        """The CPU emulator, if the library is built with it."""
        return Device(self, self._c.fa_device_create_emulator)

    def check(self, status):
        if status != 0:
            name = self._c.fa_status_name(status).decode()
            raise FusedAttentionError(name, self._c.fa_last_error_message().decode())

    def text(self, write):
        """What a function writes to a buffer, however long it is."""
        capacity = 1024
        while True:
            buffer, length = ctypes.create_string_buffer(capacity), c_size_t()
            self.check(write(buffer, capacity, byref(length)))
            if length.value < capacity:
                return buffer.value.decode()
            capacity = length.value + 1


class Device:
    """Where calls run. `default_stream` is what they are enqueued on if no other is named: None
    means PyTorch's current stream."""

    def __init__(self, library, create):
        self.library, self._handle = library, c_void_p()
        library.check(create(byref(self._handle)))
        self.name = library.text(lambda *to: library._c.fa_device_describe(self._handle, *to))
        self.default_stream = None if self.name.startswith("cuda") else 0

    def __del__(self):
        if getattr(self, "_handle", None):
            self.library._c.fa_device_destroy(self._handle)

    def __repr__(self):
        return f"<{self.name}>"

    def allocate(self, size):
        """Memory of the emulator: its address, for `free`."""
        pointer = c_void_p()
        self.library.check(self.library._c.fa_emulator_allocate(self._handle, size, byref(pointer)))
        return pointer.value

    def free(self, address):
        self.library._c.fa_emulator_free(address)

    def current_stream(self):
        if self.default_stream is not None:
            return self.default_stream
        return sys.modules["torch"].cuda.current_stream().cuda_stream


class Call:
    """A call on fixed tensors, which it keeps alive."""

    def __init__(self, device, options, tensors, operation, kept):
        library = device.library
        self._device, self._options, self._tensors, self._kept = device, options, tensors, kept
        self._run = getattr(library._c, f"fa_{operation}")
        self._plan = getattr(library._c, f"fa_{operation}_plan")

    def __call__(self, stream=None):
        """Enqueues the call on a cudaStream_t as a number; without one on the current stream."""
        device = self._device
        stream = device.current_stream() if stream is None else stream
        status = self._run(device._handle, self._options, self._tensors, stream)
        if status:
            device.library.check(status)

    def plan(self):
        """Loads the kernel ahead, and tells which it is and why."""
        return self._device.library.text(
            lambda *to: self._plan(self._device._handle, self._options, self._tensors, *to)
        )


class Softmax:
    """softmax(scale * x + mask) over the last dimension.

    `causal` hides the keys right of the `diagonal`, which goes through the "bottom right" or the
    "top left" corner; `window` = (left, right) shows only keys that close to it, None: all on that
    side. What hides more are arguments of a call, in any combination:

    exclude      bytes or bools, nonzero hides; or
    keep         bytes or bools, nonzero shows
    additive     added to the scaled x; -inf hides
    lengths      int32 [batch]: how many columns a row sees; or
    row_lengths  int32, for each row
    bank_index   int32 [batch]: which of the masks, which have a dimension more in front
    scale        one float32 on the device, in place of the number
    """

    def __init__(self, scale=1.0, causal=False, window=None, diagonal="bottom right"):
        self._options = _Options(scale=scale, **_visible_range(causal, window, diagonal))

    def forward(self, device, x, *, lse=None, stream=None, **masks):
        """The softmax of x, a new tensor like x; `lse`, if given, takes each row's log-sum-exp."""
        y = _empty_like(x)
        self.forward_call(device, x, y, lse=lse, **masks)(stream)
        return y

    def backward(self, device, dp, *, p=None, x=None, stream=None, **masks):
        """The gradient of x from that of the softmax, and from the softmax p or from x itself."""
        dx = _empty_like(dp)
        self.backward_call(device, dp, dx, p=p, x=x, **masks)(stream)
        return dx

    def forward_call(self, device, x, y, *, lse=None, scale=None, **masks):
        """The call that writes y."""
        tensors, kept = _tensors(_Forward, x=x, y=y, lse=lse, scale=scale)
        return self._call(device, "softmax_forward", tensors, kept, masks)

    def backward_call(self, device, dp, dx, *, p=None, x=None, scale=None, **masks):
        """The call that writes dx, which may be dp, p or x itself."""
        tensors, kept = _tensors(_Backward, p=p, x=x, dp=dp, dx=dx, scale=scale)
        return self._call(device, "softmax_backward", tensors, kept, masks)

    def _call(self, device, operation, tensors, kept, masks):
        mask, kept_by_mask = _mask(**masks)
        tensors.mask = ctypes.pointer(mask)
        return Call(device, self._options, tensors, operation, (kept, kept_by_mask))


class Attention:
    """softmax(softcap(scale * q k^T) + bias - alibi) v, of tensors of (batch, heads, rows,
    elements) with any strides but for the last, which is 1; without batch where they are packed.

    Without `scale` it is one over the square root of the head dimension; `causal`, `window` and
    `diagonal` are as for Softmax; scaled products stay below `softcap` in magnitude; probabilities
    are dropped with the probability `dropout`. What else counts are arguments of a call:

    exclude         bytes or bools, nonzero hides; or
    keep            bytes or bools, nonzero shows
    bias            added to the scores, of q's type or float32; -inf hides
    lengths         int32 [batch]: how many keys count
    query_lengths   int32 [batch]: how many queries count; the others give 0
    bank_index      int32 [batch]: which of the masks, which have a dimension more in front
    slopes          float32 [heads] or [batch, heads]: ALiBi's
    scale           one float32 on the device, in place of the number
    seed            of dropout: (seed, offset), numbers or int64 tensors of one element
    query_sequences, key_sequences
                    (offsets, longest) of packed queries, and of packed keys and values: int32
                    [sequences + 1], and the length of the longest
    """

    def __init__(
        self,
        scale=None,
        causal=False,
        window=None,
        diagonal="bottom right",
        softcap=0.0,
        dropout=0.0,
    ):
        self._options = _AttentionOptions(
            scale=0.0 if scale is None else scale,
            has_scale=scale is not None,
            softcap=softcap,
            dropout=dropout,
            **_visible_range(causal, window, diagonal),
        )

    def forward(self, device, q, k, v, *, lse=None, stream=None, **inputs):
        """The output, a new row-major tensor; `lse`, if given, takes each row's log-sum-exp:
        float32 (batch, heads, rows)."""
        shape = (*q.shape[:-1], v.shape[-1])
        o = sys.modules["torch"].empty(shape, dtype=q.dtype, device=q.device)
        self.forward_call(device, q, k, v, o, lse=lse, **inputs)(stream)
        return o

    def forward_call(
        self,
        device,
        q,
        k,
        v,
        o,
        *,
        lse=None,
        scale=None,
        query_lengths=None,
        query_sequences=None,
        key_sequences=None,
        slopes=None,
        seed=None,
        bias=None,
        **masks,
    ):
        """The call that writes o."""
        given = {}
        if seed is not None:
            numbers = isinstance(seed[0], int)
            names = ("seed", "offset") if numbers else ("seed_tensor", "offset_tensor")
            given = dict(zip(names, seed, strict=True))
        tensors, kept = _tensors(
            _AttentionForward,
            q=q,
            k=k,
            v=v,
            o=o,
            lse=lse,
            scale=scale,
            query_lengths=query_lengths,
            slopes=slopes,
            seed_tensor=given.get("seed_tensor"),
            offset_tensor=given.get("offset_tensor"),
        )
        if "seed" in given:
            tensors.seed, tensors.offset, tensors.has_seed = given["seed"], given["offset"], 1
        mask, kept_by_mask = _mask(additive=bias, **masks)
        tensors.mask = ctypes.pointer(mask)
        kept = [kept, kept_by_mask]
        sides = {"query_sequences": query_sequences, "key_sequences": key_sequences}
        for name, sequences in sides.items():
            if sequences is not None:
                offsets, longest = sequences
                struct, kept_by_struct = _tensors(_Sequences, offsets=offsets)
                struct.longest = longest
                setattr(tensors, name, ctypes.pointer(struct))
                kept.append(kept_by_struct)
        return Call(device, self._options, tensors, "attention_forward", kept)


def _visible_range(causal, window, diagonal):
    """The fields of options that say which keys are visible by their positions."""
    left, right = (-1, -1) if window is None else (-1 if w is None else w for w in window)
    return {
        "is_causal": causal,
        "diagonal": DIAGONALS[diagonal],
        "has_window": window is not None,
        "window_left": left,
        "window_right": right,
    }


def _mask(
    *, exclude=None, keep=None, additive=None, lengths=None, row_lengths=None, bank_index=None
):
    if exclude is not None and keep is not None:
        raise ValueError("a mask either excludes or keeps")
    if lengths is not None and row_lengths is not None:
        raise ValueError("lengths are of batch entries or of rows")
    mask, kept = _tensors(
        _Mask,
        bytes=keep if exclude is None else exclude,
        additive=additive,
        lengths=row_lengths if lengths is None else lengths,
        bank_index=bank_index,
    )
    mask.polarity = KEEP if exclude is None else EXCLUDE
    mask.lengths_per = PER_ROW if lengths is None else PER_BATCH
    return mask, kept


def _tensors(struct, **tensors):
    """A struct that points to these tensors, and what must stay alive for it."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    structs = {name: ctypes.pointer(_tensor(tensor)) for name, tensor in given.items()}
    return struct(**structs), (given, structs)


def _tensor(tensor):
    name = str(tensor.dtype).rsplit(".", 1)[-1]
    if name not in DTYPES:
        raise TypeError(f"no operation on elements of type {tensor.dtype}")
    shape, strides = list(tensor.shape), list(tensor.stride())
    if len(shape) > MAX_RANK:
        raise ValueError(f"a tensor of {len(shape)} dimensions; at most {MAX_RANK} are supported")
    sizes = c_int64 * MAX_RANK
    return _Tensor(tensor.data_ptr(), DTYPES[name], len(shape), sizes(*shape), sizes(*strides))


def _empty_like(tensor):
    """Row-major like the tensor, whatever its strides are."""
    return sys.modules["torch"].empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _find():
    here = Path(__file__).resolve().parent
    folders = [here.parent / "lib", here.parent / "target/release", here.parent / "target/debug"]
    for folder in folders:
        if (folder / "libfused_attention.so").is_file():
            return folder / "libfused_attention.so"
    raise FileNotFoundError(
        "no libfused_attention.so: build it (cargo build --release --package fused-attention-c),"
        " or name it in FUSED_ATTENTION_LIBRARY"
    )
