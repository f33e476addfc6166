#!/usr/bin/env bash
# Passes every check of the project on a fresh machine: installs a software Vulkan driver (lavapipe) if the machine has
# none, then format, lints, all tests and the documentation.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -s)" = Linux ] && ! ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json >/dev/null 2>&1; then
    if ! command -v apt-get >/dev/null; then
        echo "no Vulkan driver, and no apt-get to install one: install Mesa's lavapipe (mesa-vulkan-drivers)" >&2
        exit 3
    fi
    root=(); [ "$(id -u)" = 0 ] || root=(sudo)
    "${root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq mesa-vulkan-drivers
fi

# EGL, which wgpu asks for GL adapters, complains without it
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then
    XDG_RUNTIME_DIR="$(mktemp -d)"
    export XDG_RUNTIME_DIR
fi

cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo test --workspace --quiet
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
echo "all checks passed"
