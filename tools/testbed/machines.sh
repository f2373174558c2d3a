# Bash, for the host: starts machines, runs scripts in them, and ends them. $work is the folder of
# the image; each machine has a folder there, which is /share in the machine.
# shellcheck shell=bash

: "${work:?}"
declare -A pids=() scripts=()

# start boots a machine: start NAME HOST MEBIBYTES END:LINK:NUMBER…, where HOST is the last part of
# its addresses, END is listen or connect, LINK the cable and NUMBER that of its network. The
# listening machine starts first.
start() {
	local name=$1 host=$2 memory=$3 end link number i=0 net='' nics=()
	shift 3
	for link; do
		IFS=: read -r end link number <<<"$link"
		net+=${net:+,}eth$i:$number
		nics+=(-netdev "stream,id=n$i,addr.type=unix,addr.path=$work/$link.socket,server=$([[ $end == listen ]] && echo on || echo off)"
			-device "virtio-net-pci,netdev=n$i,romfile=,csum=off,guest_csum=off,mac=52:54:00:00:0$number:$(printf %02x "$host")")
		[[ $end == listen ]] || await 60 "the socket of $link" test -S "$work/$link.socket"
		((++i))
	done
	mkdir -p "$work/$name"
	rm -f "$work/$name"/*
	nice qemu-system-x86_64 -accel tcg,tb-size="${TB_SIZE:-128}" -cpu max -m "$memory" -smp 1 -nodefaults -nographic \
		-no-reboot -serial "file:$work/$name/console" -kernel "$work/vmlinuz" -initrd "$work/initramfs" \
		-append "console=ttyS0 quiet panic=-1 no_timer_check name=$name host=$host net=$net" \
		-fsdev "local,id=share,path=$work/$name,security_model=none" \
		-device virtio-9p-pci,fsdev=share,mount_tag=share "${nics[@]}" </dev/null >"$work/$name.qemu" 2>&1 &
	pids[$name]=$!
	scripts[$name]=0
}

# await waits some seconds for a command to succeed: await SECONDS WHAT COMMAND…
await() {
	local seconds=$1 what=$2 began=$SECONDS name
	shift 2
	until "$@"; do
		for name in "${!pids[@]}"; do
			kill -0 "${pids[$name]}" 2>/dev/null && continue
			echo "testbed: machine $name has ended while $what was waited for:" >&2
			tail -n 5 "$work/$name.qemu" "$work/$name/console" "$work/$name/boot.log" >&2
			return 1
		done
		if ((SECONDS - began > seconds)); then
			echo "testbed: waited $seconds s for $what, in vain" >&2
			return 1
		fi
		sleep 0.1
	done
}

# booted waits until all machines have booted.
booted() {
	local name
	for name in "${!pids[@]}"; do
		await "${BOOT_SECONDS:-600}" "machine $name to boot" test -e "$work/$name/ready" ||
			{ cat "$work/$name"/{console,boot.log} >&2; return 1; }
	done
}

# on runs commands in a machine, prints their output and returns their status. Their timeout is
# $PATIENCE seconds, 300 if it is not set.
on() {
	local name=$1 n dir=$work/$1
	shift
	n=$((++scripts[$name]))
	printf '%s\n' "$*" >"$dir/new"
	mv "$dir/new" "$dir/$n.sh"
	await "${PATIENCE:-300}" "machine $name to run: $*" test -e "$dir/$n.status" || { cat "$dir/$n.out" >&2; return 124; }
	cat "$dir/$n.out"
	return "$(cat "$dir/$n.status")"
}

# stop ends all machines.
stop() {
	local name
	for name in "${!pids[@]}"; do kill "${pids[$name]}" 2>/dev/null || true; done
	wait
	pids=()
}
