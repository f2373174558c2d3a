# Bash. NVMe over RDMA between the kernels: a disk of the receiver, in memory, is
# written and read by the sender.
# shellcheck shell=bash disable=SC2016
: "${work:?}" "${out:?}"

case_nvme() {
	local status=0
	queue 8mbit bfifo limit 60000
	begin nvme
	on receiver 'modprobe -a configfs null_blk nvmet nvmet-rdma
		mount -t configfs none /sys/kernel/config
		within 60 test -b /dev/nullb0 && cd /sys/kernel/config/nvmet && {
			mkdir subsystems/disk
			echo 1 >subsystems/disk/attr_allow_any_host
			mkdir subsystems/disk/namespaces/1
			echo /dev/nullb0 >subsystems/disk/namespaces/1/device_path
			echo 1 >subsystems/disk/namespaces/1/enable
			mkdir ports/1
			echo rdma >ports/1/addr_trtype
			echo ipv6 >ports/1/addr_adrfam
			echo fd00:2::1 >ports/1/addr_traddr
			echo 4420 >ports/1/addr_trsvcid
			ln -s /sys/kernel/config/nvmet/subsystems/disk ports/1/subsystems/disk
		}' >"$out/nvme/server.txt" 2>&1
	on sender 'modprobe nvme-rdma
		echo transport=rdma,traddr=fd00:2::1,trsvcid=4420,nqn=disk,nr_io_queues=2,queue_size=16 >/dev/nvme-fabrics &&
		within 60 test -b /dev/nvme0n1 &&
		timeout 100 dd if=/dev/urandom of=/dev/nvme0n1 bs=16k count=20 oflag=direct &&
		timeout 100 dd if=/dev/nvme0n1 of=/dev/null bs=16k count=20 iflag=direct
		status=$?
		for c in /sys/class/nvme/nvme*/delete_controller; do echo 1 >"$c"; done
		exit $status' >"$work/sender/client.txt" 2>&1 || status=$?
	echo "$status" >"$out/nvme/client.status"
	finish
}
