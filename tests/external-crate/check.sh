#!/usr/bin/env bash
# Builds and runs this crate the way the README tells users to: in a folder of its own, where no
# setting of this workspace reaches, with CUDA or without.
set -euo pipefail

crate=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$crate/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

cp -r "$crate/Cargo.toml" "$crate/src" "$root/Cargo.lock" "$root/rust-toolchain.toml" "$copy/"
sed -i "s|path = \"../../host\"|path = \"$root/host\"|" "$copy/Cargo.toml"
export CARGO_TARGET_DIR="$root/target/external-crate"
unset CUDA_LIBRARY_PATH
cd "$copy"

echo "== the emulator alone, and nothing at all: no CUDA folder needed"
cargo run --quiet --no-default-features --features emulator
cargo run --quiet --no-default-features

echo "== default features, with what the README puts into .cargo/config.toml"
mkdir .cargo
grep --before-context 1 '^CUDA_LIBRARY_PATH = ' "$root/README.md" | tee .cargo/config.toml
# The shared library, which the program loads, is built beside it only by a build of both.
cargo build --quiet
cargo run --quiet

echo "== no symbol of the driver leaves a shared library"
exported=$(nm --dynamic --defined-only "$CARGO_TARGET_DIR/debug/libexternal.so" | awk '{ print $3 }')
grep --quiet --line-regexp external_device_count <<<"$exported"
if grep '^cu[A-Z]' <<<"$exported"; then
    echo "exported by libexternal.so" >&2
    exit 1
fi
if readelf --dynamic "$CARGO_TARGET_DIR/debug/libexternal.so" | grep libcuda; then
    echo "libexternal.so is linked against the driver" >&2
    exit 1
fi
