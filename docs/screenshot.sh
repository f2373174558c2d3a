#!/bin/sh
# screenshot.sh takes docs/screenshot.png: the README's command in a terminal.
# It needs Debian's xvfb, xterm, imagemagick and fonts-dejavu-core.
set -eu

cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'kill $(cat "$tmp"/*.pid) 2>/dev/null; rm -rf "$tmp"' EXIT
go build -o "$tmp/rocecn" ./cmd/rocecn

Xvfb :97 -screen 0 1900x330x24 >/dev/null 2>&1 &
echo $! >"$tmp/xvfb.pid"
export DISPLAY=:97 PATH="$tmp:$PATH"
until xterm -version >/dev/null 2>&1 && [ -e /tmp/.X11-unix/X97 ]; do sleep 0.1; done

xterm -fa 'DejaVu Sans Mono' -fs 8 -geometry 256x22+0+0 -bg '#101418' -fg '#d8dee4' +sb -b 8 -e sh -c '
	printf "\033[1;32m$\033[0m rocecn testdata/tour.pcap\n"
	rocecn testdata/tour.pcap
	printf "\033[1;32m$\033[0m "
	touch "$0/done"; sleep 60' "$tmp" &
echo $! >"$tmp/xterm.pid"
until [ -e "$tmp/done" ]; do sleep 0.1; done
sleep 1
import -window root docs/screenshot.png
mogrify -trim -bordercolor '#101418' -border 8 +repage docs/screenshot.png
