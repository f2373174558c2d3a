#!/usr/bin/env python3
"""Sends RoCEv2 data packets: traffic.py DESTINATION PACKETS

They are SEND Only of a reliable connection to queue pair 17, 1 KiB each, with an ICRC,
by an ordinary UDP socket; ECT(0), so that a queue may mark them.
"""
import socket
import struct
import sys
import zlib

destination, packets = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 2)
s.bind(("::", 49152))
s.connect((destination, 4791))
addresses = b"".join(socket.inet_pton(socket.AF_INET6, a) for a in (s.getsockname()[0], destination))
payload = bytes(1024)
for psn in range(packets):
    # BTH: SEND Only, P_Key FFFF, destination queue pair 17, PSN.
    bth = struct.pack("!BBHII", 0x04, 0, 0xFFFF, 17, psn)
    length = 8 + len(bth) + len(payload) + 4
    # The ICRC sees ones for what routers change: traffic class, flow label, hop limit,
    # UDP checksum, the octet of BTH with FECN; and eight octets of ones before all.
    masked = b"\xff" * 8 + struct.pack("!IHBB", 0x6FFFFFFF, length, 17, 0xFF) + addresses
    masked += struct.pack("!HHHH", 49152, 4791, length, 0xFFFF) + bth[:4] + b"\xff" + bth[5:] + payload
    s.send(bth + payload + struct.pack("<I", zlib.crc32(masked)))
