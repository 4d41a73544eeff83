# shellcheck shell=bash
# Defines `use_venv run` and `use_venv test` for the tools that source this file. Both create .venv, or refresh it if
# pyproject.toml, hatch_build.py, constraints.txt or tools/requirements.txt has changed; otherwise they only compare these
# files. `run` installs the packages that the broker needs, `test` also those of tests and checks. Afterwards .venv is
# first in PATH, and the root of the repository is the current directory.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

find_python() {
    local name
    for name in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "pykbroker needs Python 3.11 or newer: none found as python3, python3.14, python3.13, python3.12, python3.11 or \$PYTHON" >&2
    return 1
}

make_venv() {
    local python
    python=$(find_python) || return
    if ! "$python" -m venv --clear .venv; then
        echo "'$python -m venv' failed; on Debian and Ubuntu the package python3-venv provides it" >&2
        return 1
    fi
}

describe_needs() { cat pyproject.toml hatch_build.py constraints.txt tools/requirements.txt; }

is_current() { [ -x .venv/bin/python ] && describe_needs | cmp -s - ".venv/made-for-$1"; }

refresh_venv() {
    local needs
    if is_current "$1"; then return; fi # another process created it while this one waited for the lock
    case $1 in
        run) needs=(--editable .) ;;
        test) needs=(--editable '.[arrow,console,security,spark]' --requirement tools/requirements.txt) ;;
    esac
    .venv/bin/python -c '' 2>/dev/null || make_venv || return
    .venv/bin/python -m pip install --quiet --no-compile "${needs[@]}" --constraint constraints.txt || return
    # Pip would compile with one core only, and it compiles nothing of an editable install. Some packages have files that
    # are no valid Python. Half of all code is never imported: tests of packages, and modules that mypy has as machine code.
    .venv/bin/python -m compileall -qq -j 0 -x '/(tests|mypy|mypyc|pip|pkg_resources|setuptools)/' .venv/lib || true
    .venv/bin/python -m compileall -q -j 0 pykbroker wire || return
    describe_needs >".venv/made-for-$1"
    if [ "$1" = test ]; then cp .venv/made-for-test .venv/made-for-run; fi
}

use_venv() {
    cd "$root" || return
    if ! is_current "$1"; then
        echo "preparing .venv" >&2
        ( # one process at a time, if flock is installed
            if command -v flock >/dev/null; then flock 9; fi
            refresh_venv "$1"
        ) 9>"$root/.venv.lock" || return
    fi
    export PATH="$root/.venv/bin:$PATH"
}
