# shellcheck shell=bash
# `build.sh cross-test aarch64`, which reads this file: the library and its checked build compiled here, and their tests run by
# qemu on the machine that machine.sh makes. `--syntax`: only what syntax.py says. `--compile`: only compile. `--all`: every
# case of the vector units, of the kernels and of the checked build. Other arguments go to pytest, in place of these tests.

cross_test() {
    local architecture="${1:-}" build="$PWD/build/aarch64" machine
    if [ "$architecture" != aarch64 ]; then
        echo "build.sh: cross-test is for aarch64, got '$architecture'; see build.sh --help" >&2
        return 2
    fi
    shift
    if [ "${1:-}" = --syntax ]; then
        install_build_requirements
        apart python -m tests.aarch64.syntax
        return
    fi
    machine="$build/machine"
    bash tests/aarch64/machine.sh "$machine"
    install_build_requirements
    cross_compile "$build"
    MS_ASCEND_OPS_PYTHON_MODULE="$(ls "$build"/_C*.so)" cross_compile "$build-check" -DMS_ASCEND_OPS_OBSERVER=checked
    case "${1:-}" in
        --compile) ;;
        "" | --all) apart cross_tests "$@" ;;
        *)
            stage_for "$build"
            on_the_machine "$build" "$@"
            ;;
    esac
}

cross_compile() {
    local folder="$1"
    shift
    mkdir -p "$folder"
    (
        flock 9
        cmake -S . -B "$folder" "-DCMAKE_TOOLCHAIN_FILE=$machine/toolchain.cmake" -DMS_ASCEND_OPS_PORTABLE=ON \
            -DMS_ASCEND_OPS_TEST_BUILD=ON -DMS_ASCEND_OPS_UNITY=2 "-DPython_EXECUTABLE=$(command -v python)" "$@"
        cmake --build "$folder" --parallel 2 9>&-
    ) 9> "$folder/lock"
}

# pytest by qemu, in a copy of the package with what was built in a folder (stage_for).
on_the_machine() (
    cd "$1/stage"
    export MS_ASCEND_OPS_HOST_CALLS PYTHONPATH="$PWD:$machine/site"
    MS_ASCEND_OPS_HOST_CALLS="$(ls "$build"/host_calls*.so)"
    "$machine/python" -m pytest -q --durations 10 -p no:cacheprovider -m "not slow" "${@:2}"
)

stage_for() (
    copy_package "$1" > /dev/null
)

# All parts, as many at once as there are CPUs. Without --all every instruction and type of the best vector unit, and of other
# tests the first case. Three files of tests of kernels need MindSpore, whose import takes eight minutes there.
cross_tests() {
    local number=0 parts=7 cpu sample=(--cases one) step=(-k "test_prompt and llama or test_weights_that_stay and float32")
    local unit=tests/kernels/host levels=(tests/kernels/host/test_cast.py tests/kernels/test_weight_quant_matmul.py) kernels
    local checked=(tests/kernels/test_{add_rms_norm,matmul,flash_attention,weight_quant_matmul}.py)
    mapfile -t kernels < <(grep -L 'every_operator\|ms_ascend_ops\.sliced' tests/kernels/test_*.py)
    if [ "${1:-}" = --all ]; then
        sample=(--cases paths) step=() levels=("$unit") checked=("${kernels[@]}")
    fi
    stage_for "$build"
    stage_for "$build-check"
    rm -f "$build"/part*.log
    part "instructions" "$build" --cases paths tests/aarch64 "$unit"/test_{arithmetic,cast}.py
    part "compiled loops, random programs" "$build" "${sample[@]}" "$unit" --ignore "$unit/test_arithmetic.py" \
        --ignore "$unit/test_cast.py"
    part "kernels on NumPy arrays" "$build" "${sample[@]}" "${kernels[@]}"
    part "kernels on the checked build" "$build-check" "${sample[@]}" -m "cover and not slow" "${checked[@]}"
    part "a language model without MindSpore" "$build" "${step[@]}" tests/llm/test_network.py
    for cpu in cortex-a57 cortex-a76; do
        QEMU_CPU="$cpu" part "the vector unit of a $cpu" "$build" "${sample[@]}" tests/aarch64 "${levels[@]}"
    done
    wait
    ! grep -L "^passed$" "$build"/part*.log | sed "s/^/cross-test: failed: /" | grep . >&2
}

# Waits for a free CPU, and then goes on beside it; says the last line of pytest, which has the counts.
part() {
    local log name
    number=$((number + 1))
    log="$build/part$number.log" name="[$number/$parts] $1"
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
        wait -n || true
    done
    echo "$name: begun at $SECONDS s, $log"
    {
        on_the_machine "${@:2}" > "$log" 2>&1 && echo passed >> "$log"
        echo "$name: $(grep -E '^[0-9]+ (passed|failed)|no tests ran|rror' "$log" | tail -n 1), at $SECONDS s"
    } &
}
