#!/usr/bin/env python3
"""Check the test vectors with decoders of their own, in Python 3 and nothing else.

    python3 testdata/vectors/check.py

It holds every file against schema.json, decodes the octets of every test, and
compares what comes out with the fields, the result and the flags that the file
has. The decoders are written from the specifications, not from the Go library, so
a mistake in either shows. They are also the shortest description of the formats
that there is: one function for each.
"""

import ipaddress
import json
import re
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPCODES = {int(o["opcode"], 16): o["headers"] for o in json.loads((HERE.parent / "opcodes.json").read_text())["opcodes"]}


class Invalid(Exception):
    """The octets are to be refused; kind is the class of the error."""

    def __init__(self, kind, reason):
        super().__init__(reason)
        self.kind = kind


def need(b, n, what):
    if len(b) < n:
        raise Invalid("truncated", f"{what}: shorter than {n} octets")


def number(b):
    return int.from_bytes(b, "big")


def hexadecimal(b):
    return "0x" + bytes(b).hex()


def address(b):
    a = ipaddress.ip_address(bytes(b))
    mapped = getattr(a, "ipv4_mapped", None)
    return f"::ffff:{mapped}" if mapped else str(a)  # RFC 5952 section 5


# ---- BTH and extended headers (IBTA section 9) -----------------------------------

# Of each header: its octets, its fields, and whether it deviates.
EXTENDED = {
    "RDETH": (4, lambda b: {"ee": number(b[1:4])}, lambda b: b[0] and "ReservedBits"),
    "DETH": (8, lambda b: {"qkey": hexadecimal(b[:4]), "src_qp": number(b[5:8])}, lambda b: b[4] and "ReservedBits"),
    "XRCETH": (4, lambda b: {"srq": number(b[1:4])}, lambda b: b[0] and "ReservedBits"),
    "FETH": (4, lambda b: {"selectivity": b[3] >> 4 & 3, "placement": b[3] & 15}, lambda b: feth_deviation(b)),
    "RETH": (16, lambda b: {"va": hexadecimal(b[:8]), "rkey": hexadecimal(b[8:12]), "dma_len": number(b[12:16])}, None),
    "AtomicETH": (28, lambda b: {"va": hexadecimal(b[:8]), "rkey": hexadecimal(b[8:12]), "swap": hexadecimal(b[12:20]),
                                 "compare": hexadecimal(b[20:28])}, None),
    "AETH": (4, lambda b: {"syndrome": b[0], "msn": number(b[1:4])}, lambda b: aeth_deviation(b[0])),
    "AtomicAckETH": (8, lambda b: {"original": hexadecimal(b[:8])}, None),
    "ImmDt": (4, lambda b: {"data": hexadecimal(b[:4])}, None),
    "IETH": (4, lambda b: {"rkey": hexadecimal(b[:4])}, None),
}


def feth_deviation(b):
    if number(b) >> 6:
        return "ReservedBits"
    return (b[3] >> 4 > 1 or b[3] & 15 not in (1, 2, 3)) and "UndefinedCode"


def aeth_deviation(syndrome):  # 00 ACK, 01 RNR NAK, 11 NAK with codes 0 to 4
    reserved = syndrome >> 5 not in (0, 1, 3) or syndrome >> 5 == 3 and syndrome & 31 > 4
    return reserved and "UndefinedCode"


def bth_fields(b):
    need(b, 12, "BTH")
    return {
        "opcode": hexadecimal(b[:1]), "se": b[1] >> 7 == 1, "migreq": b[1] >> 6 & 1 == 1, "pad": b[1] >> 4 & 3, "tver": b[1] & 15,
        "pkey": hexadecimal(b[2:4]), "fecn": b[4] >> 7 == 1, "becn": b[4] >> 6 & 1 == 1, "resv6": b[4] & 63,
        "dest_qp": number(b[5:8]), "ackreq": b[8] >> 7 == 1, "resv7": b[8] & 127, "psn": number(b[9:12]),
    }


def bth_deviations(f):
    deviations = set()
    if f["tver"] != 0:
        deviations.add("TransportVersion")
    if f["resv6"] != 0 or f["resv7"] != 0:
        deviations.add("ReservedBits")
    return deviations


def bth(b):
    fields, at, deviations = bth_fields(b), 12, set()
    fields["headers"] = []
    for name in OPCODES.get(b[0], []):
        size, decode, deviation = EXTENDED[name]
        need(b[at:], size, name)
        fields["headers"].append({"type": name, **decode(b[at:])})
        if deviation and deviation(b[at:at + size]):
            deviations.add(deviation(b[at:at + size]))
        at += size
    fields["rest"] = b[at:].hex()
    return fields, deviations | bth_deviations(fields)


# ---- IP, for the formats that need the whole packet ------------------------------


def walk(ip):
    """Where UDP begins, its length, and the extension headers: (type, start, end)."""
    headers = []
    if ip[0] >> 4 == 4:
        return 4 * (ip[0] & 15), 20, headers
    following, at = ip[6], 40
    while following in (0, 43, 60):
        end = at + 8 * (ip[at + 1] + 1)
        headers.append((following, at, end))
        following, at = ip[at], end
    assert following == 17
    return at, 40, headers


# ---- Invariant CRC (IBTA annex A17) ------------------------------------------------


def invariant_crc(ip, coverage):
    """The ICRC of an IP packet in a coverage, and the one that it carries."""
    udp, fixed, headers = walk(ip)
    end = udp + number(ip[udp + 4:udp + 6]) - 4
    header, extensions, behind = bytearray(ip[:fixed]), ip[fixed:udp], bytearray(ip[udp:end])
    if coverage == "without":
        if fixed == 20:
            header[0] = 0x45
            header[2:4] = (number(header[2:4]) - len(extensions)).to_bytes(2, "big")
        else:
            header[4:6] = (number(header[4:6]) - len(extensions)).to_bytes(2, "big")
            header[6] = 17
            for kind, start, _ in headers:
                if kind == 43 and ip[start + 2] == 4 and ip[start + 3] > 0:
                    header[24:40] = ip[start + 8:start + 24]
    if fixed == 20:
        for i in (1, 8, 10, 11):
            header[i] = 0xFF
    else:
        header[0] |= 0x0F
        header[1] = header[2] = header[3] = header[7] = 0xFF
    behind[6] = behind[7] = behind[12] = 0xFF
    covered = bytes(header) + (extensions if coverage == "as-sent" else b"") + bytes(behind)
    return zlib.crc32(b"\xff" * 8 + covered), int.from_bytes(ip[end:end + 4], "little")


def icrc(ip):
    for coverage in ("as-sent", "without", "skipped"):
        right, carried = invariant_crc(ip, coverage)
        if right == carried:
            return {"value": f"0x{carried:08x}", "coverage": coverage}, set()
    raise Invalid("icrc", "no coverage gives this value")


# ---- CNP and PPFC (IBTA annex A17.9.3, PPFC section 3) --------------------------------


def cnp_deviations(f, reserved):
    deviations = bth_deviations(f)
    if f["se"] or f["migreq"] or f["pad"] or f["fecn"] or f["ackreq"] or f["psn"]:
        deviations.add("FixedFields")
    if f["dest_qp"] == 0:
        deviations.add("NoQueuePair")
    if any(reserved):
        deviations.add("ReservedBits")
    return deviations


def cnp(b):
    need(b, 28, "CNP")
    f = bth_fields(b)
    if b[0] != 0x81:
        raise Invalid("other", "not opcode 0x81")
    if len(b) != 28 and f["resv6"] & 0x20:
        raise Invalid("other", "PPFC")
    if len(b) != 28:
        raise Invalid("malformed", "not 16 octets behind the BTH")
    return {**f, "reserved": b[12:].hex()}, cnp_deviations(f, b[12:])


def ppfc(b):
    need(b, 24, "PPFC")
    f = bth_fields(b)
    if b[0] != 0x81 or f["resv6"] & 0x20 == 0 or len(b) == 28:
        raise Invalid("other", "not opcode 0x81 with P, or a CNP")
    if len(b) not in (24, 36):
        raise Invalid("malformed", "neither 12 nor 24 octets behind the BTH")
    words, deviations = b[-8:], set()
    fields = {
        "pkey": f["pkey"], "dest_qp": f["dest_qp"], "address": address(b[12:-8]), "flags": number(words[:2]) >> 2,
        "type": ("stop", "resume", "alarm", "hold")[words[1] & 3], "port": number(words[2:4]),
        "reserved": number(words[4:6]), "pause_us": number(words[6:8]),
    }
    f["resv6"] &= ~0x20
    deviations = bth_deviations(f)
    if fields["flags"] or fields["reserved"]:
        deviations.add("ReservedBits")
    if fields["dest_qp"] == 0:
        deviations.add("NoQueuePair")
    return fields, deviations


# ---- IPv6 options (RFC 8200 section 4.2) ------------------------------------------------


def options(b):
    need(b, 8, "options header")
    need(b, 8 + 8 * b[1], "options header")
    b, at, found = b[:8 + 8 * b[1]], 2, []
    next_header = b[0]
    while at < len(b):
        if b[at] == 0:
            at += 1
            continue
        if at + 2 > len(b) or at + 2 + b[at + 1] > len(b):
            raise Invalid("malformed", "an option overruns the header")
        if b[at] != 1:
            found.append({"type": hexadecimal(b[at:at + 1]), "offset": at, "data": b[at + 2:at + 2 + b[at + 1]].hex()})
        at += 2 + b[at + 1]
    return {"next_header": next_header, "options": found}, set()


# ---- IOAM (RFC 9197, RFC 9326, RFC 9486) --------------------------------------------------

NODE = [  # by bit of the trace type: (name, octets) of each part
    [("hop_limit", 1), ("node_id", 3)], [("ingress_if", 2), ("egress_if", 2)], [("ts_sec", 4)], [("ts_frac", 4)],
    [("transit_delay", 4)], [("ns_data", 4)], [("queue_depth", 4)], [("checksum_complement", 4)],
    [("hop_limit_wide", 1), ("node_id_wide", 7)], [("ingress_if_wide", 4), ("egress_if_wide", 4)], [("ns_data_wide", 8)],
    [("buffer_occupancy", 4)],
] + [[("undefined", 4)]] * 10
WIDE = ("node_id_wide", "ns_data_wide")  # beyond what every JSON reader takes for a number


def node(b, trace_type):
    n, at, undefined = {}, 0, []
    for bit, parts in enumerate(NODE):
        if trace_type >> (23 - bit) & 1:
            for name, size in parts:
                need(b[at:], size, "node")
                value = b[at:at + size]
                at += size
                if name == "undefined":
                    undefined.append(hexadecimal(value))
                else:
                    n[name] = hexadecimal(value) if name in WIDE else number(value)
    if undefined:
        n["undefined"] = undefined
    if trace_type & 2:
        need(b[at:], 4, "snapshot")
        size = 4 * b[at]
        need(b[at + 4:], size, "snapshot")
        n["snapshot"] = {"schema": number(b[at + 1:at + 4]), "data": b[at + 4:at + 4 + size].hex()}
        at += 4 + size
    return n, at


def trace(kind, b):
    need(b, 8, "trace")
    node_len, flags, remaining, trace_type = b[2] >> 3, (b[2] & 7) << 1 | b[3] >> 7, b[3] & 127, number(b[4:7])
    octets = sum(size for bit, parts in enumerate(NODE) if trace_type >> (23 - bit) & 1 for _, size in parts)
    if 4 * node_len != octets:
        raise Invalid("malformed", "NodeLen is not what the trace type asks for")
    at = 8 + (4 * remaining if kind == 0 else 0)
    if at > len(b):
        raise Invalid("malformed", "RemainingLen is beyond the space")
    fields = {
        "type": kind, "namespace": number(b[:2]), "node_len": node_len, "remaining_len": remaining, "overflow": flags & 8 != 0,
        "loopback": flags & 4 != 0, "active": flags & 2 != 0, "trace_type": hexadecimal(b[4:7]), "free": b[8:at].hex(), "nodes": [],
    }
    if at < len(b) and octets == 0 and trace_type & 2 == 0:
        raise Invalid("malformed", "node data, but no field")
    while at < len(b):
        n, size = node(b[at:], trace_type)
        fields["nodes"].append(n)
        at += size
    return fields, {"ReservedBits"} if flags & 1 or trace_type & 1 or b[7] else set()


def ioam(b):
    need(b, 2, "IOAM")
    deviations = {"ReservedBits"} if b[0] else set()
    kind, b = b[1], b[2:]
    if kind <= 1:
        fields, more = trace(kind, b)
        return fields, deviations | more
    fields = {"type": kind}
    if kind == 2:  # proof of transit
        need(b, 4, "proof of transit")
        fields |= {"namespace": number(b[:2]), "pot_type": b[2], "flags": b[3]}
        if b[2] == 0:
            need(b, 20, "proof of transit")
            if len(b) > 20:
                raise Invalid("malformed", "octets left over")
            fields |= {"pkt_id": hexadecimal(b[4:12]), "cumulative": hexadecimal(b[12:20])}
        else:
            fields["data"] = b[4:].hex()
    elif kind == 3:  # edge-to-edge
        need(b, 4, "edge-to-edge")
        fields |= {"namespace": number(b[:2]), "e2e_type": hexadecimal(b[2:4])}
        at = 4
        for bit, name, size in ((15, "sequence64", 8), (14, "sequence", 4), (13, "ts_sec", 4), (12, "ts_frac", 4)):
            if number(b[2:4]) >> bit & 1:
                need(b[at:], size, "edge-to-edge")
                fields[name] = hexadecimal(b[at:at + 8]) if size == 8 else number(b[at:at + 4])
                at += size
        if at < len(b) and number(b[2:4]) & 0x0FFF == 0:
            raise Invalid("malformed", "octets left over")
    elif kind == 4:  # direct export
        need(b, 8, "direct export")
        size = 8 + 4 * bin(b[3]).count("1")
        need(b, size, "direct export")
        if len(b) > size:
            raise Invalid("malformed", "octets left over")
        fields |= {"namespace": number(b[:2]), "flags": b[2], "extension_flags": b[3], "trace_type": hexadecimal(b[4:7])}
        at = 8
        for mask, name in ((0x80, "flow_id"), (0x40, "sequence")):
            if b[3] & mask:
                fields[name] = number(b[at:at + 4])
                at += 4
    else:
        fields["data"] = b.hex()
    return fields, deviations


# ---- Fast CNP (FAST section 4) ---------------------------------------------------------------


def fastcnp(ip):
    udp, _, headers = walk(ip)
    data = ip[udp + 8:udp + number(ip[udp + 4:udp + 6]) - 4]
    if data[0] != 0x81:
        raise Invalid("other", "not opcode 0x81")
    if data[4] & 0x20 and len(data) != 28:
        raise Invalid("other", "PPFC")
    option = None
    for kind, start, end in headers:
        if kind != 60:
            continue
        for o in options(ip[start:end])[0]["options"]:
            if o["type"] != "0x9e":
                continue
            if option:
                raise Invalid("malformed", "a second Fast CNP option")
            option, offset, content = o, start + o["offset"], bytes.fromhex(o["data"])
            if len(content) != 16 and len(content) < 26:
                raise Invalid("malformed", "neither option 1 nor option 2")
            if len(content) > 16 and content[1] > 1:
                raise Invalid("other", "IOAM, but no trace")
            if len(content) > 16:
                traced, deviations = ioam(content[:-16])
    if not option:
        raise Invalid("other", "a CNP")
    if len(data) != 28:
        raise Invalid("malformed", "not 16 octets behind the BTH")
    f = bth_fields(data)
    fields = {
        "src": address(ip[8:24]), "dst": address(ip[24:40]), "dest_qp": f["dest_qp"], "pkey": f["pkey"],
        "option": 1 if len(content) == 16 else 2, "option_type": option["type"], "offset": offset,
        "original_dst": address(content[-16:]), "origin": "receiver" if content[-16:] == ip[8:24] else "network",
    }
    if len(content) > 16:
        fields["ioam"] = traced
        # What is copied from the data packet is not the notification's own.
        deviations = {"ReservedBits"} if content[0] else set()
    else:
        deviations = set()
    if offset % 4 != (2 if len(content) == 16 else 0):
        deviations.add("Alignment")
    source = ipaddress.ip_address(bytes(ip[8:24]))
    if source.is_multicast or source.is_unspecified or source.is_loopback or source.is_link_local:
        deviations.add("Unreachable")
    return fields, deviations | cnp_deviations(f, data[12:])


# ---- FCN (FCN section 4) ------------------------------------------------------------------------


def fcn(b):
    need(b, 4, "FCN")
    if len(b) > 4:
        raise Invalid("malformed", "UDP length is not 12")
    v = number(b)
    deviations = {"ReservedBits"} if v & 0x1FF else set()
    if v >> 12 == 0:
        deviations.add("NoFlowLabel")
    return {"flow_label": v >> 12, "level": v >> 9 & 7, "reserved": v & 0x1FF}, deviations


# ---- Message to a proxy (PROXY section 4) -----------------------------------------------------------


def proxy_family(b):
    def same(family, size, first, n):
        ip = b[size:]
        return len(ip) >= first + 2 * n and ip[0] >> 4 == family and ip[first:first + 2 * n] == b[:2 * n]

    def plausible(size):
        ip = b[size:]
        if not ip:
            return False
        if ip[0] >> 4 == 4:
            header = 4 * (ip[0] & 15)
            return header >= 20 and len(ip) >= header and number(ip[2:4]) >= len(ip)
        return ip[0] >> 4 == 6 and len(ip) >= 40 and 40 + number(ip[4:6]) >= len(ip)

    need(b, 16, "message")
    for four, six in ((same(4, 16, 12, 4), same(6, 40, 8, 16)), (plausible(16), plausible(40))):
        if four != six:
            return 4 if four else 6
    if len(b) in (16, 40):
        return 4 if len(b) == 16 else 6
    raise Invalid("malformed", "the family does not show")


def proxy(b):
    family = proxy_family(b)
    n = 4 if family == 4 else 16
    need(b, 2 * n + 8, "message")
    behind = b[2 * n:2 * n + 8]
    fields = {
        "family": family, "src": address(b[:n]), "dst": address(b[n:2 * n]), "protocol": behind[0], "src_port": number(behind[1:3]),
        "dst_port": number(behind[3:5]), "level": behind[5] >> 5, "reserved": number(behind[5:8]) & 0x1FFFFF,
        "invoking_len": len(b) - 2 * n - 8,
    }
    deviations = {"ReservedBits"} if fields["reserved"] else set()
    ip = b[2 * n + 8:]
    if ip:
        udp = walk(ip)[0]
        fields["invoking_dest_qp"] = number(ip[udp + 13:udp + 16])
        addresses = (address(ip[12:16]), address(ip[16:20])) if ip[0] >> 4 == 4 else (address(ip[8:24]), address(ip[24:40]))
        if (*addresses, number(ip[udp:udp + 2])) != (fields["src"], fields["dst"], fields["src_port"]):
            deviations.add("OtherFlow")
    return fields, deviations


# ---- Ethernet flow control (IEEE 802.3 annex 31A, 802.1Qbb) --------------------------------------------


def pfc(b):
    need(b, 2, "opcode")
    if number(b[:2]) == 0x0001:
        need(b, 4, "PAUSE")
        return {"opcode": "pause", "pause_quanta": number(b[2:4])}, set()
    if number(b[:2]) != 0x0101:
        raise Invalid("other", "another MAC control frame")
    need(b, 20, "PFC")
    quanta = [number(b[i:i + 2]) for i in range(4, 20, 2)]
    deviations = {"ReservedBits"} if b[2] else set()
    if any(q and not b[3] >> i & 1 for i, q in enumerate(quanta)):
        deviations.add("TimeUnused")
    return {"opcode": "pfc", "enabled": [i for i in range(8) if b[3] >> i & 1], "quanta": quanta}, deviations


# ---- Connection management (IBTA chapter 12) ------------------------------------------------------------


def cm(b):
    need(b, 24, "MAD header")
    names = {0x10: "REQ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP"}
    kind = number(b[16:18])
    if kind not in names:
        raise Invalid("other", "not one of these messages")
    fields = {"message": names[kind], "transaction_id": hexadecimal(b[8:16])}
    deviations = {"FixedFields"} if (b[0], b[1], b[2], b[3]) != (1, 7, 2, 3) else set()
    m = b[24:]
    need(m, 232, "message")
    fields["local_comm_id"] = number(m[:4])
    if kind == 0x10:
        fields |= {"local_qpn": number(m[32:35]), "starting_psn": number(m[44:47]), "transport": m[43] >> 1 & 3, "pkey": hexadecimal(m[48:50]),
                   "mtu": m[50] >> 4, "local_gid": address(m[56:72]), "remote_gid": address(m[72:88])}
        return fields, deviations
    fields["remote_comm_id"] = number(m[4:8])
    if kind == 0x13:
        fields |= {"local_qpn": number(m[12:15]), "starting_psn": number(m[20:23])}
    elif kind == 0x15:
        fields["remote_qpn"] = number(m[8:11])
    return fields, deviations


FORMATS = {f.__name__: f for f in (bth, icrc, cnp, ppfc, options, ioam, fastcnp, fcn, proxy, pfc, cm)}


# ---- JSON Schema, as much of it as schema.json uses ---------------------------------------------------------

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def conforms(value, schema, root, path="file"):
    if "$ref" in schema:
        conforms(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "type" in schema:
        kind = TYPES[schema["type"]]
        assert isinstance(value, kind) and (kind is not int or not isinstance(value, bool)), f"{path}: no {schema['type']}"
    if "const" in schema:
        assert value == schema["const"], f"{path}: not {schema['const']}"
    if "enum" in schema:
        assert value in schema["enum"], f"{path}: {value} is not allowed"
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), f"{path}: {value} does not match"
    if "minimum" in schema:
        assert value >= schema["minimum"], f"{path}: too small"
    for part in schema.get("allOf", []):
        conforms(value, part, root, path)
    if "if" in schema:
        try:
            conforms(value, schema["if"], root, path)
        except AssertionError:
            conforms(value, schema.get("else", {}), root, path)
        else:
            conforms(value, schema.get("then", {}), root, path)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name in schema.get("required", []):
            assert name in value, f"{path}: no {name}"
        for name, part in value.items():
            if name in known:
                conforms(part, known[name], root, f"{path}.{name}")
            else:
                assert schema.get("additionalProperties", True), f"{path}: unknown {name}"
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            conforms(part, schema["items"], root, f"{path}[{i}]")


def check(test, decode, flags):
    for flag in test["flags"]:
        assert flag in flags, f"flag {flag} is explained nowhere"
    try:
        decoded, deviations = decode(bytes.fromhex(test["octets"]))
    except Invalid as e:
        assert test["result"] == "invalid", f"refused: {e}"
        assert test["error"] == e.kind, f"refused as {e.kind}: {e}"
        return
    assert test["result"] != "invalid", "not refused"
    assert test["decoded"] == decoded, f"decoded as {json.dumps(decoded)}"
    assert (test["result"] == "acceptable") == bool(deviations), f"deviations: {sorted(deviations)}"
    assert deviations <= set(test["flags"]), f"flags that are missing: {sorted(deviations - set(test['flags']))}"


def main():
    schema = json.loads((HERE / "schema.json").read_text())
    flags = json.loads((HERE / "flags.json").read_text())
    used, wrong, count = set(), 0, 0
    for format, decode in FORMATS.items():
        file = json.loads((HERE / f"{format}.json").read_text())
        try:
            conforms(file, schema, schema)
            assert file["format"] == format, "format is not the name of the file"
            ids = [test["id"] for test in file["tests"]]
            assert ids == list(range(1, len(ids) + 1)), "ids do not count from 1"
        except AssertionError as e:
            wrong += 1
            print(f"{format}.json: {e}")
            continue
        for test in file["tests"]:
            count += 1
            used.update(test["flags"])
            try:
                check(test, decode, flags)
            except AssertionError as e:
                wrong += 1
                print(f"{format}.json, {test['id']} ({test['comment']}): {e}")
    for flag in sorted(set(flags) - used):
        wrong += 1
        print(f"flags.json: no test has {flag}")
    print(f"{count} tests in {len(FORMATS)} files, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
