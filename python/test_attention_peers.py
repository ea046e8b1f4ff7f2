"""Tests of what attention_peers.py does without a GPU and without PyTorch."""

import io
import unittest
from contextlib import redirect_stderr, redirect_stdout

import attention_peers as peers
from attention_peers import Cell


def selected(*arguments):
    return list(peers.cells(peers.parse(arguments)))


class Selection(unittest.TestCase):
    def test_the_standard_cells(self):
        cells = selected()
        self.assertEqual(len(cells), 2 * 5 * 2)
        self.assertEqual(cells[0], Cell("bf16", (16, 32, 1024, 64), "none"))
        self.assertEqual(cells[-1], Cell("bf16", (1, 16, 16384, 128), "causal"))

    def test_cells_that_are_asked_for(self):
        words = ["--lengths", "4096", "--head-dims", "256", "--masks", "bias,bytes"]
        cells = selected(*words, "--dtype", "f16", "--tokens", "1")
        shape = (1, 8, 4096, 256)
        self.assertEqual(cells, [Cell("f16", shape, "bias"), Cell("f16", shape, "bytes")])

    def test_words_that_mean_nothing(self):
        for arguments in (["--masks", "alibi"], ["--peers", "ours"]):
            said = io.StringIO()
            with self.subTest(arguments), redirect_stderr(said), self.assertRaises(SystemExit):
                peers.parse(arguments)
            self.assertIn("is not one of", said.getvalue())

    def test_operations(self):
        cell = Cell("bf16", (2, 3, 10, 16), "none")
        self.assertEqual(cell.operations, 4 * 2 * 3 * 100 * 16)
        self.assertEqual(cell._replace(mask="causal").operations, cell.operations // 2)
        long = Cell("bf16", (1, 1, 4096, 64), "window")
        self.assertEqual(long.operations, 4 * 4096 * 1024 * 64)

    def test_heads_that_share_and_packed_sequences(self):
        words = ["--lengths", "512", "--head-dims", "64", "--masks", "window"]
        [cell] = selected(*words, "--sharing", "8", "--packed")
        self.assertEqual(cell, Cell("bf16", (32, 32, 512, 64), "window", 8, True))
        self.assertEqual(cell.label, "window, 8 heads share, packed")
        self.assertEqual(cell._replace(sharing=1, packed=False).label, "window")

    def test_what_does_not_go_together(self):
        for arguments, text in (
            (["--sharing", "3"], "divide"),
            (["--packed", "--masks", "bias"], "packed sequences go with"),
        ):
            said = io.StringIO()
            with self.subTest(arguments), redirect_stderr(said), self.assertRaises(SystemExit):
                peers.parse(arguments)
            self.assertIn(text, said.getvalue())


class Records(unittest.TestCase):
    def record(self, length, ours, peer):
        return {
            "shape": [1, 2, length, 64],
            "mask": "causal",
            "tile": "portable_d64",
            "peak_bytes": {"ours": 0, "torch flash": 5_000_000},
            "microseconds": {"ours": ours, "torch flash": peer},
        }

    def test_a_summary_is_of_each_head_dimension_mask_and_peer(self):
        cells = [self.record(512, [1.0, 2.0, 4.0], [2.0, 4.0, 8.0]), self.record(9, [4.0], [2.0])]
        lines = list(peers.summary(cells))
        self.assertEqual(lines, ["D 64, mask causal, over torch flash: 1.000 (0.500 .. 2.000)"])

    def test_a_cell_is_told_in_operations(self):
        said = io.StringIO()
        with redirect_stdout(said):
            peers.report(self.record(512, [1.0, 2.0, 4.0], [4.0, 4.0, 4.0]), 4e6)
        ours, flash = said.getvalue().splitlines()
        self.assertRegex(ours, r"ours \(portable_d64\) +2\.0 us +2\.0 TFLOP/s +0\.0 MB$")
        self.assertIn("ours is 2.000 (1.000 .. 4.000) times as fast", flash)


if __name__ == "__main__":
    unittest.main()
