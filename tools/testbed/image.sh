#!/usr/bin/env bash
# Makes the image of the machines, in the folder WORK: Debian's kernel and a root in memory, only
# from Debian's packages, independent of the packages installed here.
#
#	tools/testbed/image.sh WORK
#
# apt sees an empty list of installed packages, so that it fetches the dependencies, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(realpath "$1")

programs=(bash busybox-static ibverbs-providers iproute2 kmod nftables perftest rdmacm-utils tcpdump)
modules=(
	virtio_pci virtio_net 9p 9pnet_virtio af_packet                     # the machine itself
	crc32_generic rdma_rxe ib_uverbs rdma_ucm ib_umad                   # soft-RoCE: without crc32_generic it has no link
	sch_htb sch_red sch_codel sch_netem sch_tbf sch_fq sch_ingress      # queues
	cls_flower cls_bpf cls_u32 cls_matchall act_mirred act_sample       # classifiers
	act_gact act_police act_skbedit psample
	veth dummy vrf ip6_tunnel sit esp6 xfrm_user                            # tunnels
	nf_tables nft_log nft_limit nf_log_syslog nfnetlink_log nft_reject_inet # input of the sender's agent
	configfs null_blk nvmet nvmet-rdma nvme-rdma                        # NVMe over RDMA
)

mkdir -p "$work"/{debs/partial,kernel,root}
: >"$work/nothing"
nothing=(-q -y -o "Dir::State::status=$work/nothing" -o "Dir::Cache::archives=$work/debs" -o Debug::NoLocking=1
	-o Acquire::Retries=3 -o APT::Sandbox::User=)

echo "image: fetching Debian's packages" >&2
package=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" { print $2; exit }')
[[ $package ]] || { echo "image: apt knows no linux-image-amd64: apt-get update?" >&2; exit 1; }
{
	apt-get "${nothing[@]}" --no-install-recommends --download-only install "${programs[@]}"
	(cd "$work/kernel" && apt-get "${nothing[@]}" download "$package")
} >"$work/apt.log" 2>&1 || { tail "$work/apt.log" >&2; echo "image: apt could not fetch the packages" >&2; exit 1; }

for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
dpkg-deb -x "$work"/kernel/*.deb "$work/kernel"
rm -r "$work"/debs "$work"/kernel/*.deb
root=$work/root
rm -rf "$root"/usr/share/{doc,locale,man,misc,info,lintian} "${root:?}/var" "$root"/usr/lib/x86_64-linux-gnu/{gconv,perl-base}
mkdir -p "$root"/{applets,dev,proc,run,share,sys,tmp,var/run}
echo 'root:x:0:0:root:/tmp:/bin/bash' >"$root/etc/passwd"

# Modules, with their dependencies.
version=$(ls "$work/kernel/lib/modules")
depmod -b "$work/kernel" "$version"
for module in "${modules[@]}"; do
	modprobe -d "$work/kernel" -S "$version" --show-depends "$module" ||
		echo "image: $package has no module $module" >&2
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
	install -D "$file" "$root/${file#"$work/kernel/"}"
done
cp "$work/kernel/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$root/lib/modules/$version/"
depmod -b "$root" "$version"

CGO_ENABLED=0 go build -o "$work/rocecn" ./cmd/rocecn
cp "$work/rocecn" "$root/usr/bin/"
install tools/testbed/init "$root/init"
install -m 644 tools/testbed/guest.sh "$root/guest.sh"

cp "$work/kernel/boot/vmlinuz-$version" "$work/vmlinuz"
(cd "$root" && find . | bin/busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs"
rm -r "$work/kernel" "$root"
echo "image: Linux $version, $(($(stat -c %s "$work/initramfs") >> 20)) MiB" >&2
