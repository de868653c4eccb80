# Make .venv hold what the lock files say. Sourced by ./demaq, ./test and .ci/run, which set $project before.
#
#     ensure_installed runtime    what ./demaq needs
#     ensure_installed test       that, and the tools of ./test
#
# A stamp in .venv says which pyproject.toml and locks it was made from. It is written last, so whatever is
# interrupted half-way is done again; comparing it is all that later calls do.
#
# shellcheck shell=sh

ensure_installed() {
    is_installed "$1" && return
    python=$(find_python) || give_up "needs Python 3.11 or newer, and found none on the PATH"
    take_turn
    is_installed "$1" || install "$1" # perhaps whoever had the turn before has done it
    exec 9>&-
}

is_installed() {
    [ -x "$project/.venv/bin/python" ] && [ -f "$project/.venv/stamp-$1" ] &&
        [ "$(cat "$project/.venv/stamp-$1")" = "$(stamp "$1")" ]
}

# The folder is part of it: an editable install points to it, and must follow when it is moved.
stamp() {
    case $1 in
    runtime) cat "$project/pyproject.toml" "$project/requirements-build.lock" "$project/requirements.lock" ;;
    test) cat "$project/pyproject.toml" "$project/requirements-build.lock" "$project/requirements.lock" \
        "$project/requirements-test.lock" ;;
    esac | cksum
    printf '%s\n' "$project"
}

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# The kernel keeps the lock on descriptor 9 for this shell and drops it however the shell ends: none goes stale.
take_turn() {
    exec 9>"$project/.venv.lock" || give_up "cannot write to $project"
    "$python" - <<'END' || give_up "cannot lock $project/.venv.lock"
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("demaq: waiting for another installation in this folder", file=sys.stderr)
    fcntl.flock(9, fcntl.LOCK_EX)
END
}

install() {
    venv=$project/.venv
    log=$venv/install.log
    if [ -e "$venv/unfinished" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
        rm -rf "$venv" # interrupted before, or its Python is gone
        tell "first use: making .venv with $("$python" --version)"
    fi
    mkdir -p "$venv" || give_up "cannot write to $project"
    rm -f "$venv/stamp-runtime" "$venv/stamp-test"
    : >"$venv/unfinished"
    : >"$log"

    [ -x "$venv/bin/python" ] || logged "$python" -m venv "$venv"
    case $1 in
    runtime) lock=requirements.lock ;;
    test) lock=requirements-test.lock ;;
    esac
    tell "installing $lock; takes a minute or two, and more when downloads are slow: Spark is 450 MB"
    locked requirements-build.lock --only-binary :all:
    # Only wheels, but for pyspark, which comes as source alone. It is built by what was installed just now.
    locked "$lock" --only-binary :all: --no-binary pyspark --no-build-isolation
    logged "$venv/bin/python" -m pip install --no-input --no-deps --no-build-isolation --editable "$project"

    rm "$venv/unfinished"
    stamp runtime >"$venv/stamp-runtime" # the test lock holds all that the other one does
    if [ "$1" = test ]; then stamp test >"$venv/stamp-test"; fi
}

# Install what a lock names, and nothing else.
locked() {
    name=$1
    shift
    logged "$venv/bin/python" -m pip install --no-input --require-hashes "$@" -r "$project/$name"
}

logged() {
    if ! PIP_DISABLE_PIP_VERSION_CHECK=1 "$@" >>"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        give_up "could not be installed; the output above is kept in $log"
    fi
}

tell() {
    printf 'demaq: %s\n' "$1" >&2
}

give_up() {
    tell "$1"
    exit 1
}
