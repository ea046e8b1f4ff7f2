"""Tests of what peers.py does without a GPU and without PyTorch."""

import io
import math
import unittest
from contextlib import redirect_stderr, redirect_stdout

import peers
from peers import Cell


def selected(*arguments):
    return list(peers.cells(peers.parse(arguments)))


class Selection(unittest.TestCase):
    def test_the_standard_cells(self):
        cells = selected()
        plain = [cell for cell in cells if cell.mask == "none"]
        lengths = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
        for direction in ("forward", "backward"):
            of_direction = [cell for cell in plain if cell.direction == direction]
            self.assertEqual([cell.columns for cell in of_direction], lengths)
            self.assertEqual({cell.dtype for cell in of_direction}, {"bf16"})
            self.assertEqual({math.prod(cell.shape) for cell in of_direction}, {1 << 28})
        masked = [cell for cell in cells if cell.mask != "none"]
        self.assertEqual({cell.direction for cell in masked}, {"forward"})
        found = [(cell.dtype, cell.columns) for cell in masked]
        self.assertEqual(found, [(t, n) for t in ("bf16", "f16") for n in (1024, 2048, 4096)])
        self.assertEqual(masked[0].shape, (32, 8, 1024, 1024))

    def test_cells_that_are_asked_for(self):
        cells = selected("--direction", "forward", "--lengths", "2000,7", "--dtypes", "f32")
        self.assertEqual(cells[0], Cell("forward", "f32", (134217, 2000), "none"))
        self.assertEqual(cells[2], Cell("forward", "f32", (8, 8, 2000, 2000), "heads"))
        self.assertEqual(len(cells), 4)
        self.assertEqual(peers.parse(["--peers", ""]).peers, [])

    def test_words_that_mean_nothing(self):
        for arguments in (["--masks", "causal"], ["--peers", "ours"], ["--dtypes", "f64"]):
            said = io.StringIO()
            with self.subTest(arguments), redirect_stderr(said), self.assertRaises(SystemExit):
                peers.parse(arguments)
            self.assertIn("is not one of", said.getvalue())

    def test_bytes_that_must_be_moved(self):
        shape = (2, 3, 5, 7)
        elements = math.prod(shape)
        for direction, dtype, mask, expected in [
            ("forward", "bf16", "none", 4 * elements),
            ("backward", "f32", "none", 12 * elements),
            ("forward", "f16", "bytes", 5 * elements),
            ("forward", "f16", "heads", 4 * elements + elements // 3),
        ]:
            cell = Cell(direction, dtype, shape, mask)
            self.assertEqual(cell.bytes, expected)
        self.assertEqual((cell.rows, cell.columns), (30, 7))


class Rounds(unittest.TestCase):
    def test_everyone_begins_as_often(self):
        names = ["copy", "ours", "quack"]
        orders = [peers.in_turn(names, i) for i in range(6)]
        self.assertEqual(orders[:2], [names, ["ours", "quack", "copy"]])
        for place in range(3):
            self.assertEqual(sorted(order[place] for order in orders), sorted(2 * names))

    def test_sets_exceed_the_cache(self):
        self.assertEqual(peers.sets_for(1 << 30, 60 << 20), 1)
        self.assertEqual(peers.sets_for(1 << 20, 60 << 20), 240)

    def test_launches_fill_a_sample(self):
        self.assertEqual([peers.launches_for(us, 2.5) for us in (250, 1e6, 0.1)], [10, 2, 200])


class Records(unittest.TestCase):
    def record(self, columns, ours, quack):
        return {
            "direction": "forward",
            "dtype": "bf16",
            "columns": columns,
            "mask": "none",
            "tile": "warp4",
            "bytes": 4_000_000,
            "peak_bytes": {"ours": 3_000_000_000},
            "microseconds": {"ours": ours, "quack": quack},
        }

    def test_ratios_pair_the_rounds(self):
        cell = self.record(512, [2.0, 4.0], [1.0, 8.0])
        self.assertEqual(peers.ratios(cell["microseconds"], "ours", "quack"), [0.5, 2.0])

    def test_a_summary_names_what_is_slower_in_every_round(self):
        cells = [
            self.record(512, [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]),
            self.record(1024, [1.0, 1.0, 1.0], [0.5, 0.5, 0.97]),
            self.record(2048, [1.0, 1.0, 1.0], [0.5, 1.0, 0.99]),
        ]
        (line,) = peers.summary(cells)
        mean = (2.0 * 0.5 * 0.99) ** (1 / 3)
        expected = f"forward, mask none, over quack: {mean:.3f} (0.500 .. 2.000)"
        self.assertEqual(line, expected + "; wholly below 0.98: bf16 1024")

    def test_a_cell_is_told_in_terabytes(self):
        said = io.StringIO()
        with redirect_stdout(said):
            peers.report(self.record(512, [1.0, 2.0, 4.0], [4.0, 4.0, 4.0]))
        ours, quack = said.getvalue().splitlines()
        self.assertRegex(ours, r"ours \(warp4\) +2\.0 us +2\.00 TB/s +3\.00 GB$")
        self.assertIn("ours is 2.000 (1.000 .. 4.000) times as fast", quack)

    def test_a_command_does_not_tell_where_files_are(self):
        words = ["--record", "a", "--rounds", "9", "--library=b", "--masks", "none"]
        self.assertEqual(peers.command(words), "peers.py --rounds 9 --masks none")


if __name__ == "__main__":
    unittest.main()
