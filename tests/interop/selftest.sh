#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Does the lab's own equipment work?  Kernel talks to kernel, in two namespaces of one guest: verified
# messages both ways must come through, and a fault made on purpose must be reported.
#
#     selftest.sh [RDSPEER]      messages: SELFTEST_MESSAGES (2000 of each of 2 pairs)
set -u -o pipefail
here=$(dirname "$(realpath "$0")")

# Inside the guest.
if [ "${1:-}" = --inside ]; then
	rdspeer=$2 n=$3 port=4000 failed=0
	both() { # FAULT-OPTIONS OF B...; leaves the output of b in $out, the statuses in $a and $b
		port=$((port + 100))
		local pid common=(--send "$n" --recv "$n" --big $((n / 40 + 1)) --empty $((n / 20 + 1)) --pairs 2
			--seed "$port" --timeout 100 --stall 20)
		ip netns exec a "$rdspeer" exchange --local 192.0.2.1:$port --peer 192.0.2.2:$port "${common[@]}" > /run/a.out &
		pid=$!
		out=$(ip netns exec b "$rdspeer" exchange --local 192.0.2.2:$port --peer 192.0.2.1:$port "${common[@]}" "$@"); b=$?
		wait $pid; a=$?
		out_a=$(< /run/a.out)
	}
	verdict() { # NAME EXPRESSION
		if eval "$2"; then echo "ok - $1"; else echo "not ok - $1 (a $a, b $b)"; sed 's/^/# /' <<< "$out_a
$out"; failed=1; fi
	}
	out='' out_a='' total=$((2 * n))
	good="done sent $total received $total lost 0 duplicated 0 reordered 0 corrupt 0"
	# Two kernels that meet lose messages while they settle on their 8 connections (README.md).
	out=$(ip netns exec a "$rdspeer" ping 192.0.2.2 -c 3 --interval 300) a=$? b=0
	verdict "ping" '[ $a = 0 ]'
	both
	grep -h took <<< "$out" | sed 's/^/# /'
	verdict "kernel to kernel, $total messages each way" \
		'[ $a$b = 00 ] && [[ $out == *"$good"* ]] && [[ $out_a == *"$good"* ]]'
	n=200
	total=$((2 * n))
	for fault in drop:empty dup:short swap:long corrupt:short; do
		case $fault in
		drop*) want="lost 1 duplicated 0 reordered 0 corrupt 0" ;;
		dup*) want="lost 0 duplicated 1 reordered 0 corrupt 0" ;;
		swap*) want="lost 0 duplicated 0 reordered 1 corrupt 0" ;;
		corrupt*) want="lost 0 duplicated 0 reordered 0 corrupt 1" ;;
		esac
		both --fault $fault@50
		verdict "fault $fault is reported" '[ $a = 0 ] && [ $b = 1 ] && [[ $out == *"$want"* ]]'
	done
	echo "1..6"
	exit $failed
fi

cannot() { # where nothing can be tested: skip, but never in CI
	echo "cannot run here: $*"
	[ "${CI:-}" = true ] && exit 1
	exit 77
}
[ "$(id -u)" = 0 ] || cannot "not root"
[ -e /dev/net/tun ] || cannot "no /dev/net/tun"
for p in linux.uml busybox ip; do
	command -v $p > /dev/null || cannot "no $p: run tests/interop/kernel-peer setup --uml"
done

rdspeer=${1:-${RDSPEER:-}}
if [ -z "$rdspeer" ]; then
	dir=$(mktemp -d) || exit 1
	trap 'rm -rf "$dir"' EXIT
	rdspeer=$dir/rdspeer
	gcc -D_GNU_SOURCE -std=gnu11 -O2 -static -o "$rdspeer" "$here"/guest/*.c || exit 1
fi
rdspeer=$(realpath "$rdspeer")
"$here/kernel-peer" run --uml --in guest --mem 512 --timeout 200 --share "$(dirname "$rdspeer")" \
	-- bash "$here/selftest.sh" --inside "$rdspeer" "${SELFTEST_MESSAGES:-2000}"
