# shellcheck shell=bash
# `build.sh cross-test aarch64`, which reads this file: the library compiled here, and its tests run by qemu on the machine
# that machine.sh makes. `--compile`: only compile. Without a selection the tests are those of the vector unit on a CPU of
# each of its levels (kernels/host/simd/vector_unit_select.cpp), then one case of each kernel on the best CPU that is emulated.

cross_test() {
    local architecture="${1:-}" build="$PWD/build/aarch64" machine python cpu
    if [ "$architecture" != aarch64 ]; then
        echo "build.sh: cross-test is for aarch64, got '$architecture'; see build.sh --help" >&2
        return 2
    fi
    shift
    machine="$build/machine"
    bash tests/aarch64/machine.sh "$machine"
    install_build_requirements
    cross_compile "$build" "$machine"
    if [ "${1:-}" = --compile ]; then
        return
    fi
    copy_package "$build"
    export MS_ASCEND_OPS_HOST_CALLS PYTHONPATH="$PWD:$machine/site"
    MS_ASCEND_OPS_HOST_CALLS="$(ls "$build"/host_calls*.so)"
    run() {
        "$machine/python" -m pytest -q -p no:cacheprovider -m "not slow" "$@"
    }
    if [ $# -gt 0 ]; then
        run "$@"
        return
    fi
    for cpu in cortex-a57 cortex-a76 max; do
        echo "The vector unit on an emulated $cpu:"
        QEMU_CPU="$cpu" run --cases paths tests/aarch64 tests/kernels/host
    done
    echo "Kernels, and a language model:"
    run --cases paths tests/kernels/test_*.py tests/llm/test_network.py
}

cross_compile() {
    local build="$1" machine="$2" python
    python="$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    (
        flock 9
        cmake -S . -B "$build" "-DCMAKE_TOOLCHAIN_FILE=$machine/toolchain.cmake" -DMS_ASCEND_OPS_PORTABLE=ON \
            -DMS_ASCEND_OPS_TEST_BUILD=ON -DMS_ASCEND_OPS_UNITY=2 "-DPython_EXECUTABLE=$(command -v python)" \
            "-DPython_INCLUDE_DIR=$machine/system/usr/include/python$python" \
            "-DCMAKE_CXX_FLAGS=-idirafter $machine/system/usr/include" \
            "-DPYTHON_MODULE_EXTENSION=.cpython-${python/./}-aarch64-linux-gnu.so" -DPYTHON_MODULE_DEBUG_POSTFIX=
        cmake --build "$build" --parallel 2 9>&-
    ) 9> "$build/lock"
}
