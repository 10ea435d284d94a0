#!/usr/bin/env bash
# An aarch64 machine in software: Debian's or Ubuntu's packages, unpacked into a folder, run by qemu. Nothing is installed
# into the system; apt gets lists and a state of its own, so that it needs no rights.
#
#   bash tests/aarch64/machine.sh FOLDER     makes FOLDER/system, FOLDER/site (Python packages) and FOLDER/python
set -euo pipefail

folder="$(mkdir -p "$1" && cd "$1" && pwd)"

need() {
    local missing=()
    command -v aarch64-linux-gnu-g++ > /dev/null || missing+=(g++-aarch64-linux-gnu)
    command -v qemu-aarch64-static > /dev/null || missing+=(qemu-user-static)
    command -v apt-get > /dev/null || { echo "cross-test: Debian or Ubuntu is needed, for the packages of the emulated machine" >&2; exit 1; }
    if [ "${#missing[@]}" -gt 0 ]; then
        echo "cross-test: this needs packages; install them by: apt-get install ${missing[*]}" >&2
        exit 1
    fi
}

# apt for arm64, with a state below $folder.
apt_arm64() {
    local tool="$1"
    shift
    "$tool" -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt/state" \
        -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User= "$@"
}

need
version="$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
if [ ! -e "$folder/complete" ]; then
    echo "Setting up an emulated aarch64 machine in $folder (a minute or two)"
    rm -rf "$folder/system" "$folder/debs" "$folder/site"
    mkdir -p "$folder"/{system,debs,site} "$folder"/apt/{state/lists/partial,cache/archives/partial}
    : > "$folder/apt/status"
    apt_arm64 apt-get update > "$folder/apt.log" 2>&1
    if ! apt_arm64 apt-cache show "python$version-minimal" > /dev/null 2>&1; then
        echo "cross-test: this system's packages have no Python $version for arm64; use an environment with the system's own Python" >&2
        exit 1
    fi
    (
        cd "$folder/debs"
        apt_arm64 apt-get install --download-only --yes --no-install-recommends "python$version" "libpython$version-dev" \
            libstdc++6 libgomp1 >> "$folder/apt.log" 2>&1
        for package in "$folder"/apt/cache/archives/*.deb; do
            dpkg-deb -x "$package" "$folder/system"
        done
    )
    abi="cp${version/./}"
    python3 -m pip install --quiet --target "$folder/site" --only-binary=:all: --implementation cp --python-version "$version" \
        --abi "$abi" --abi abi3 --abi none --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 \
        --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 "numpy<2" ml_dtypes "llvmlite>=0.45,<0.51" pytest \
        hypothesis pyyaml "click>=8.1" tokenizers jinja2 "gguf>=0.10" safetensors
    rm -rf "$folder/debs" "$folder/apt"
    touch "$folder/complete"
fi
cat > "$folder/python" <<EOF
#!/bin/sh
# The best CPU that qemu has, unless QEMU_CPU names another one. By its argument 0 Python finds itself: what it starts is
# this script again.
exec qemu-aarch64-static -cpu "\${QEMU_CPU:-max}" -L "$folder/system" -E PYTHONHOME="$folder/system/usr" -0 "$folder/python" \\
    "$folder/system/usr/bin/python$version" "\$@"
EOF
chmod +x "$folder/python"
cat > "$folder/toolchain.cmake" <<EOF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_FLAGS_INIT "-idirafter $folder/system/usr/include")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(Python_INCLUDE_DIR "$folder/system/usr/include/python$version" CACHE PATH "")
set(PYTHON_MODULE_EXTENSION ".cpython-${version/./}-aarch64-linux-gnu.so" CACHE STRING "")
set(PYTHON_MODULE_DEBUG_POSTFIX "" CACHE STRING "")
EOF
