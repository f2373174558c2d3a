#!/usr/bin/env python3
"""Sends RoCEv2 data packets: traffic.py DESTINATION PACKETS

They are SEND Only of a reliable connection to queue pair 17, 1 KiB each, with an ICRC,
by an ordinary UDP socket; ECT(0), so that a queue may mark them; without a UDP checksum,
as network cards send them.
"""
import socket
import struct
import sys
import zlib

destination, packets = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 2)
s.setsockopt(socket.IPPROTO_UDP, 101, 1)  # UDP_NO_CHECK6_TX of linux/udp.h
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
    probe.connect((destination, 4791))
    source = probe.getsockname()[0]
s.bind((source, 49152))  # not connected: that nobody listens there is no matter
addresses = b"".join(socket.inet_pton(socket.AF_INET6, a) for a in (source, destination))
payload = bytes(1024)
for psn in range(packets):
    # BTH: SEND Only, P_Key FFFF, destination queue pair 17, PSN.
    bth = struct.pack("!BBHII", 0x04, 0, 0xFFFF, 17, psn)
    length = 8 + len(bth) + len(payload) + 4
    # The ICRC sees ones for what routers change: traffic class, flow label, hop limit,
    # UDP checksum, the octet of BTH with FECN; and eight octets of ones before all.
    masked = b"\xff" * 8 + struct.pack("!IHBB", 0x6FFFFFFF, length, 17, 0xFF) + addresses
    masked += struct.pack("!HHHH", 49152, 4791, length, 0xFFFF) + bth[:4] + b"\xff" + bth[5:] + payload
    s.sendto(bth + payload + struct.pack("<I", zlib.crc32(masked)), (destination, 4791))
