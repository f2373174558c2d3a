#!/usr/bin/env python3
"""Sends RoCEv2 data packets: traffic.py DESTINATION PACKETS

The packets are SEND Only of a reliable connection to queue pair 17, with 1 KiB of data and
an ICRC, sent by an ordinary UDP socket. They are ECT(0), so that a queue may mark them, and
have no UDP checksum, like those of network cards.
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
s.bind((source, 49152))  # not connected, so a missing receiver is no error
addresses = b"".join(socket.inet_pton(socket.AF_INET6, a) for a in (source, destination))
payload = bytes(1024)
for psn in range(packets):
    # BTH: SEND Only, P_Key FFFF, destination queue pair 17, PSN.
    bth = struct.pack("!BBHII", 0x04, 0, 0xFFFF, 17, psn)
    length = 8 + len(bth) + len(payload) + 4
    # The ICRC covers eight octets of ones and the packet, with ones in the fields that
    # routers change: traffic class, flow label, hop limit, UDP checksum, the BTH octet with FECN.
    masked = b"\xff" * 8 + struct.pack("!IHBB", 0x6FFFFFFF, length, 17, 0xFF) + addresses
    masked += struct.pack("!HHHH", 49152, 4791, length, 0xFFFF) + bth[:4] + b"\xff" + bth[5:] + payload
    s.sendto(bth + payload + struct.pack("<I", zlib.crc32(masked)), (destination, 4791))
