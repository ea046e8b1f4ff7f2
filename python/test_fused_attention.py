"""Tests of the binding on the emulator, with memory of its own in place of PyTorch's tensors.

FUSED_ATTENTION_LIBRARY names a library with the emulator:

    cargo build --package fused-attention-c --features emulator
    FUSED_ATTENTION_LIBRARY=target/debug/libfused_attention.so python3 -m unittest discover python
"""

import ctypes
import math
import struct
import unittest

import fused_attention
from fused_attention import Attention, Library, Softmax

CTYPES = {
    "float16": ctypes.c_uint16,
    "float32": ctypes.c_float,
    "uint8": ctypes.c_uint8,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
}


class Tensor:
    """What the binding asks of a tensor, in memory of the emulator."""

    def __init__(self, device, values, shape, dtype="float32", strides=None):
        self.device, self.shape, self.dtype = device, tuple(shape), f"torch.{dtype}"
        self._strides = strides or tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        self._array = CTYPES[dtype] * len(values)
        self._address = device.allocate(ctypes.sizeof(self._array))
        self.values()[:] = [half_bits(x) for x in values] if dtype == "float16" else values

    def __del__(self):
        self.device.free(self._address)

    def data_ptr(self):
        return self._address

    def stride(self):
        return self._strides

    def values(self):
        return self._array.from_address(self._address)


def half_bits(x):
    return struct.unpack("<H", struct.pack("<e", x))[0]


def half_numbers(bits):
    return [struct.unpack("<e", struct.pack("<H", x))[0] for x in bits]


def softmax(row, visible=None):
    """Of a list of numbers, those that are visible."""
    visible = visible or [True] * len(row)
    powers = [math.exp(x) if seen else 0.0 for x, seen in zip(row, visible)]
    total = sum(powers)
    return [power / total if total else 0.0 for power in powers]


class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = Library()
        cls.device = cls.library.emulator()

    def tensor(self, values, shape, **options):
        return Tensor(self.device, values, shape, **options)

    def x(self):
        return self.tensor([0.5, -1.0, 2.0, 0.0, 1.5, -0.5], (2, 3))

    def run_forward(self, softmax=Softmax(), x=None, **masks):
        """The rows of y."""
        x = x or self.x()
        y = self.tensor([9.0] * 6, (2, 3))
        softmax.forward_call(self.device, x, y, **masks)()
        values = list(y.values())
        return [values[:3], values[3:]]

    def assertRows(self, found, expected):
        for found_row, expected_row in zip(found, expected, strict=True):
            for a, b in zip(found_row, expected_row, strict=True):
                self.assertAlmostEqual(a, b, places=6)

    def test_the_library_describes_itself(self):
        self.assertRegex(self.library.version, r"^\d+\.\d+\.\d+$")
        self.assertEqual(self.device.name, "emulator (CPU emulator)")

    def test_the_scale(self):
        rows = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.5]]
        expected = [softmax([0.25 * x for x in row]) for row in rows]
        self.assertRows(self.run_forward(Softmax(scale=0.25)), expected)
        scale = self.tensor([0.25], (1,))
        self.assertRows(self.run_forward(Softmax(scale=7.0), scale=scale), expected)

    def test_masks_of_bytes(self):
        mask = self.tensor([0, 1, 0], (3,), dtype="uint8")
        rows = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.5]]
        excluded = [softmax(row, [True, False, True]) for row in rows]
        self.assertRows(self.run_forward(exclude=mask), excluded)
        kept = [softmax(row, [False, True, False]) for row in rows]
        self.assertRows(self.run_forward(keep=mask), kept)

    def test_lengths(self):
        rows = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.5]]
        expected = [softmax(rows[0], [True, True, False]), [0.0, 0.0, 0.0]]
        lengths = self.tensor([2, 0], (2,), dtype="int32")
        self.assertRows(self.run_forward(lengths=lengths), expected)
        self.assertRows(self.run_forward(row_lengths=lengths), expected)

    def test_additive_masks_and_banks(self):
        bank = self.tensor([0.0, -math.inf, 1.0, 0.5, 0.0, 0.0], (2, 1, 3))
        index = self.tensor([1, 0], (2,), dtype="int32")
        expected = [softmax([1.0, -1.0, 2.0]), softmax([0.0, 1.5, 0.5], [True, False, True])]
        x, y = self.x(), self.tensor([9.0] * 6, (2, 1, 3))
        x.shape, x._strides = (2, 1, 3), (3, 3, 1)
        Softmax().forward_call(self.device, x, y, additive=bank, bank_index=index)()
        values = list(y.values())
        self.assertRows([values[:3], values[3:]], expected)

    def test_causal_masks_and_windows(self):
        rows = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.5]]
        for options, visible in [
            ({"causal": True}, [[1, 1, 0], [1, 1, 1]]),
            ({"causal": True, "diagonal": "top left"}, [[1, 0, 0], [1, 1, 0]]),
            ({"window": (0, 0)}, [[0, 1, 0], [0, 0, 1]]),
            ({"window": (None, 0), "diagonal": "top left"}, [[1, 0, 0], [1, 1, 0]]),
        ]:
            with self.subTest(options):
                expected = [softmax(row, seen) for row, seen in zip(rows, visible)]
                self.assertRows(self.run_forward(Softmax(**options)), expected)

    def test_the_log_sum_exp(self):
        lse = self.tensor([9.0, 9.0], (2,))
        self.run_forward(lse=lse)
        expected = [math.log(sum(map(math.exp, row))) for row in [[0.5, -1.0, 2.0], [0, 1.5, -0.5]]]
        self.assertRows([list(lse.values())], [expected])

    def test_the_backward(self):
        rows = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.5]]
        dp = [[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]
        visible = [[True, True, False], [True, True, True]]
        p = [softmax([0.25 * x for x in row], seen) for row, seen in zip(rows, visible)]
        expected = []
        for p_row, dp_row in zip(p, dp):
            mean = sum(a * b for a, b in zip(p_row, dp_row))
            expected.append([0.25 * a * (b - mean) for a, b in zip(p_row, dp_row)])
        gradient = self.tensor(sum(dp, []), (2, 3))
        saved = self.tensor(sum(p, []), (2, 3))
        mask = self.tensor([0, 0, 1, 0, 0, 0], (2, 3), dtype="uint8")
        for source in ({"p": saved}, {"x": self.x()}):
            for options, masks in (({}, {"exclude": mask}), ({"causal": True}, {})):
                dx = self.tensor([9.0] * 6, (2, 3))
                softmax_of = Softmax(scale=0.25, **options)
                call = softmax_of.backward_call(self.device, gradient, dx, **source, **masks)
                self.assertIn("softmax_backward", call.plan())
                call()
                values = list(dx.values())
                self.assertRows([values[:3], values[3:]], expected)

    def test_strides(self):
        # The columns of two rows that alternate with others.
        memory = [0.5, -1.0, 2.0, 7.0, 7.0, 7.0, 0.0, 1.5, -0.5]
        x = self.tensor(memory, (2, 3), strides=(6, 1))
        self.assertRows(self.run_forward(x=x), self.run_forward())

    def test_a_plan_names_its_kernel(self):
        call = Softmax().forward_call(self.device, self.x(), self.tensor([9.0] * 6, (2, 3)))
        self.assertIn("softmax_forward_f32", call.plan())

    def test_refusals(self):
        x, y = self.x(), self.tensor([9.0] * 6, (3, 2))
        with self.assertRaisesRegex(fused_attention.FusedAttentionError, r"\[2, 3\]") as refused:
            Softmax().forward_call(self.device, x, y)()
        self.assertEqual(refused.exception.status, "FA_STATUS_SHAPE_MISMATCH")
        with self.assertRaisesRegex(fused_attention.FusedAttentionError, "p and x"):
            Softmax().backward_call(self.device, x, y)()
        with self.assertRaisesRegex(ValueError, "excludes or keeps"):
            Softmax().forward_call(self.device, x, y, exclude=x, keep=x)
        x.dtype = "torch.complex64"
        with self.assertRaisesRegex(TypeError, "complex64"):
            Softmax().forward_call(self.device, x, y)


class AttentionBinding(unittest.TestCase):
    """One head of two queries and three keys, whose scores are 0 and whose values are 1, 2 and 4
    in each of eight elements."""

    @classmethod
    def setUpClass(cls):
        cls.device = Library().emulator()

    def tensor(self, values, shape, dtype="float16"):
        return Tensor(self.device, values, shape, dtype=dtype)

    def call(self, attention=Attention(), rows=(2, 3), shape=lambda rows: (1, 1, rows, 8), **inputs):
        q = self.tensor([1.0] * 8 * rows[0], shape(rows[0]))
        k = self.tensor([0.0] * 8 * rows[1], shape(rows[1]))
        values = [x for row in range(rows[1]) for x in [[1.0, 2.0, 4.0][row % 3]] * 8]
        self.o = self.tensor([9.0] * 8 * rows[0], shape(rows[0]))
        v = self.tensor(values, shape(rows[1]))
        return attention.forward_call(self.device, q, k, v, self.o, **inputs)

    def outputs(self, *arguments, **inputs):
        """Each query's output, the same in all elements."""
        self.call(*arguments, **inputs)()
        numbers = half_numbers(self.o.values())
        rows = [numbers[i : i + 8] for i in range(0, len(numbers), 8)]
        self.assertTrue(all(row == [row[0]] * 8 for row in rows), rows)
        return [row[0] for row in rows]

    def assertOutputs(self, found, expected):
        for a, b in zip(found, expected, strict=True):
            self.assertAlmostEqual(a, b, delta=2e-3 * abs(b))

    def test_the_mean(self):
        lse = self.tensor([9.0, 9.0], (1, 1, 2), dtype="float32")
        self.assertOutputs(self.outputs(lse=lse), [7 / 3, 7 / 3])
        for value in lse.values():
            self.assertAlmostEqual(value, math.log(3), places=5)

    def test_causal_masks_and_windows(self):
        for options, expected in [
            ({"causal": True}, [1.5, 7 / 3]),
            ({"causal": True, "diagonal": "top left"}, [1.0, 1.5]),
            ({"window": (0, None)}, [3.0, 4.0]),
        ]:
            with self.subTest(options):
                self.assertOutputs(self.outputs(Attention(**options)), expected)

    def test_what_hides_and_adds(self):
        hidden = self.tensor([0, 1, 0], (3,), dtype="uint8")
        self.assertOutputs(self.outputs(exclude=hidden), [2.5, 2.5])
        self.assertOutputs(self.outputs(keep=hidden), [2.0, 2.0])
        bias = self.tensor([math.log(2), 0.0, -math.inf], (3,), dtype="float32")
        self.assertOutputs(self.outputs(bias=bias), [4 / 3, 4 / 3])
        lengths = self.tensor([2], (1,), dtype="int32")
        self.assertOutputs(self.outputs(lengths=lengths), [1.5, 1.5])
        one = self.tensor([1], (1,), dtype="int32")
        self.assertOutputs(self.outputs(query_lengths=one), [7 / 3, 0.0])
        slopes = self.tensor([math.log(2)], (1,), dtype="float32")
        expected = [(0.5 + 2 + 2) / 2, (0.25 + 1 + 4) / 1.75]
        self.assertOutputs(self.outputs(slopes=slopes), expected)

    def test_scales_and_caps(self):
        # All scores are 0, so that nothing changes; it must be taken all the same.
        scale = self.tensor([0.5], (1,), dtype="float32")
        for found in [
            self.outputs(Attention(scale=3.0)),
            self.outputs(Attention(scale=math.nan), scale=scale),
            self.outputs(Attention(softcap=2.0)),
        ]:
            self.assertOutputs(found, [7 / 3, 7 / 3])

    def test_dropout(self):
        attention = Attention(dropout=0.5)
        seed, offset = (self.tensor([n], (1,), dtype="int64") for n in (5, 6))
        dropped = self.outputs(attention, rows=(30, 30), seed=(5, 6))
        self.assertEqual(dropped, self.outputs(attention, rows=(30, 30), seed=(seed, offset)))
        self.assertNotEqual(dropped, self.outputs(attention, rows=(30, 30), seed=(5, 7)))
        self.assertGreater(len(set(dropped)), 5)

    def test_packed_sequences(self):
        queries = self.tensor([0, 1, 2], (3,), dtype="int32")
        keys = self.tensor([0, 1, 3], (3,), dtype="int32")
        found = self.outputs(
            shape=lambda rows: (1, rows, 8),
            query_sequences=(queries, 1),
            key_sequences=(keys, 2),
        )
        self.assertOutputs(found, [1.0, 3.0])

    def test_a_plan_names_its_kernel(self):
        self.assertIn("attention_forward_f16", self.call().plan())

    def test_refusals(self):
        for attention, status in [
            (Attention(dropout=1.5), "FA_STATUS_BAD_DROPOUT"),
            (Attention(dropout=0.5), "FA_STATUS_MISSING_DROPOUT_SEED"),
            (Attention(softcap=-1.0), "FA_STATUS_BAD_SOFTCAP"),
        ]:
            with self.assertRaises(fused_attention.FusedAttentionError) as refused:
                self.call(attention)()
            self.assertEqual(refused.exception.status, status)


if __name__ == "__main__":
    unittest.main()
