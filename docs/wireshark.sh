#!/bin/sh
# wireshark.sh takes docs/wireshark.png: a Fast CNP in Wireshark with the plugin.
# It needs Debian's wireshark, xvfb, xdotool, imagemagick and fonts-dejavu-core.
set -eu

cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'kill $(cat "$tmp"/*.pid) 2>/dev/null; rm -rf "$tmp"' EXIT

Xvfb :98 -screen 0 1500x950x24 >/dev/null 2>&1 &
echo $! >"$tmp/xvfb.pid"
until [ -e /tmp/.X11-unix/X98 ]; do sleep 0.1; done

# Nothing configured but what the picture needs: no warning about root, the
# columns, the layers that are open.
mkdir "$tmp/config"
cat >"$tmp/config/preferences" <<'END'
privs.warn_if_elevated: FALSE
gui.update.enabled: FALSE
gui.geometry.save.position: FALSE
gui.geometry.save.size: FALSE
gui.geometry.save.maximized: FALSE
gui.layout_type: 1
udp.ignore_ipv6_zero_checksum: TRUE
END
cat >"$tmp/config/recent" <<'END'
gui.geometry_main_x: 0
gui.geometry_main_y: 0
gui.geometry_main_width: 1500
gui.geometry_main_height: 950
gui.geometry_main_maximized: FALSE
gui.geometry_main_upper_pane: 300
gui.geometry_main_lower_pane: 560
gui.byteview_show: FALSE
END
DISPLAY=:98 HOME=$tmp WIRESHARK_CONFIG_DIR=$tmp/config XDG_RUNTIME_DIR=$tmp LC_ALL=C.UTF-8 TZ=UTC \
	wireshark -X lua_script:wireshark/rocecn.lua -r testdata/messages.pcap -n -g 7 >"$tmp/log" 2>&1 &
echo $! >"$tmp/wireshark.pid"
sleep "${WAIT:-12}"

# Open what the plugin shows: the last line of the middle pane, and all below it,
# but not the BTH.
DISPLAY=:98 xdotool mousemove 300 461 click 1 sleep 0.5 key shift+Right sleep 0.5 mousemove 31 476 click 1 sleep 0.5 mousemove 1400 40 sleep 1
DISPLAY=:98 import -window root +dither -colors 128 "${1:-docs/wireshark.png}"
