#!/usr/bin/env bash
# By hand, not in CI: what a newcomer does. Clones into an empty folder, with a fresh HOME and no keys, runs
# `make run` until the printed address answers, stops it and looks for leftovers, then runs `make test`.
#   tests/e2e/test_fresh_clone.sh [folder to work in [run-only]]
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
place=${1:-$(mktemp -d /tmp/goalwright-clone.XXXXXX)}
mkdir -p "$place/home"
git clone -q "$source" "$place/goalwright"
cd "$place/goalwright"
# Certificates and package sources of this machine stay; everything else of the account is left behind.
clean=(env -i "PATH=$PATH" "HOME=$place/home" "LANG=${LANG:-C.UTF-8}")
for name in SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS PIP_CERT PIP_FIND_LINKS PIP_INDEX_URL HTTPS_PROXY HTTP_PROXY NO_PROXY; do
    if [ -n "${!name:-}" ]; then clean+=("$name=${!name}"); fi
done

echo "== make run, in $place"
start=$(date +%s)
"${clean[@]}" make run >"$place/run.log" 2>&1 </dev/null &
run=$!
trap 'kill $run 2>/dev/null || true' EXIT
address=
until [ -n "$address" ]; do
    kill -0 $run 2>/dev/null || { cat "$place/run.log"; echo "make run ended by itself"; exit 1; }
    address=$(sed -n 's/^VS Code: *\(http[^ ]*\).*/\1/p' "$place/run.log")
    sleep 1
done
code=$(curl -s -o /dev/null -w '%{http_code}' -L -c "$place/cookies" "$address")
cat "$place/run.log"
echo "== $address answers with $code after $(($(date +%s) - start)) s"
[ "$code" = 200 ]

workspace=$(sed -n 's/^Workspace: *//p' "$place/run.log")
kill -TERM $run
wait $run || true
trap - EXIT
tail -n 1 "$place/run.log"
for _ in $(seq 100); do
    left=$(pgrep -af -- "$workspace|$place/goalwright/.build" | grep -v pgrep || true)
    [ -z "$left" ] && break
    sleep 0.1
done
[ -z "$left" ] || { echo "processes are left: $left"; exit 1; }
echo "== nothing is left running"

[ "${2:-}" = run-only ] && exit

echo "== make test"
start=$(date +%s)
"${clean[@]}" CI=true bash .ci/run </dev/null
echo "== make test took $(($(date +%s) - start)) s; git status:"
git status --short
