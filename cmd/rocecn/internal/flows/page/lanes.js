// A lane is one thing over the time that is shown: a picture 1000 wide and 100 high,
// whatever size it has on the screen, ticks at its side, and what is at the cursor.

const columns = { area: 150, bar: 400 }; // how many parts of a picture are told apart
const x = time => +(Math.min(Math.max(share(time), -0.01), 1.01) * 1000).toFixed(2);
const y = (n, top) => +(100 - (100 * n) / (top || 1)).toFixed(2);

// steps draws values as an area whose top has steps.
function steps(parts) {
  let path = "";
  parts.forEach(({ from, to, height }, i) => {
    const begins = i === 0 || parts[i - 1].to !== from;
    path += (begins ? (i ? "V100" : "") + `M${x(from)} 100` : "") + `V${height}H${x(to)}`;
  });
  return path && path + "V100";
}

// bars draws each value as a bar, that of one kind beside those of the others.
function bars(parts, place, of, top) {
  let path = "";
  for (const { from, to, values } of parts) {
    if (!values[place]) continue;
    const left = x(from), width = Math.max(x(to) - left, 2 * of) / of;
    const at = Math.max(left + place * width, 0);
    path += `M${at.toFixed(2)} 100V${y(values[place], top)}h${Math.max(width * 0.9, 1.5).toFixed(2)}V100`;
  }
  return path;
}

const drawn = (kind, path, title) =>
  path ? `<path class="${kind}" d="${path}">${title ? `<title>${escaped(title)}</title>` : ""}</path>` : "";

// parts are the groups of bins that the view has, with what of gives of each.
const parts = (series, of, many = columns.bar) => groups(series.edges, view, many)
  .map(group => ({ from: series.edges[group[0]], to: series.edges[group[1]], ...of(group) }));

// groupAt returns the group of bins at a time, as it is drawn.
function groupAt(series, time, many = columns.bar) {
  return groups(series.edges, view, many).find(([i, j]) => series.edges[i] <= time && time < series.edges[j]);
}

// rateLane draws the bits a second.
const rateLane = series => ({
  name: "Rate", unit: "bit/s", kind: "rate", tall: true,
  draw() {
    const list = parts(series, group => ({ value: rate(series, group) }), columns.area);
    const top = Math.max(...list.map(part => part.value), 0);
    list.forEach(part => { part.height = y(part.value, top); });
    return { svg: drawn("rate", steps(list)), top, write: scaled };
  },
  read(time) {
    const group = groupAt(series, time, columns.area);
    return group ? scaled(rate(series, group)) + "bit/s" : "";
  },
});

// countLane draws how many of some kinds there were: [field, name, class].
const countLane = (name, series, kinds) => {
  const there = kinds.filter(([field]) => series[field]);
  return there.length ? {
    name, kind: "counts", legend: there.map(([field, name, kind]) => [kind, name, sum(series[field], [0, Infinity])]),
    draw() {
      const list = parts(series, group => ({ values: there.map(([field]) => sum(series[field], group)) }));
      const top = Math.max(...list.flatMap(part => part.values), 1);
      return { svg: there.map(([, , kind], i) => drawn(kind, bars(list, i, there.length, top))).join(""), top, write: scaled, entire: true };
    },
    read(time) {
      const group = groupAt(series, time);
      if (!group) return "";
      return there.map(([field, name]) => [sum(series[field], group), name]).filter(([n]) => n)
        .map(([n, name]) => n + " " + name).join(", ");
    },
  } : null;
};

// rttLane draws the longest round trips.
const rttLane = series => series.rtt ? {
  name: "Round trip", unit: "longest", kind: "rtt",
  draw() {
    const list = parts(series, group => ({ values: [most(series.rtt, group)] }));
    const top = Math.max(...list.map(part => part.values[0]), 0);
    return { svg: drawn("rtt", bars(list, 0, 1, top)), top, write: shortTime };
  },
  read(time) {
    const group = groupAt(series, time), longest = group ? most(series.rtt, group) : 0;
    return longest ? shortTime(longest) : "";
  },
} : null;

const shown = ([, time]) => time >= view.from && time <= view.to;
const stroke = (kind, time, from, to, title) => drawn(kind, `M${x(time)} ${from}V${to}`, title);
const markTitle = ([, time, frame, , , text]) => `frame ${frame}, +${shortTime(time)}: ${text}`;

// psnLane draws how far the PSNs came, and what they showed on the way.
const psnLane = chart => chart.psn ? {
  name: "PSN", unit: "since the first", kind: "psns", tall: true,
  legend: [["gap", "missing"], ["late", "out of order"], ["repeat", "repeated"], ["life", "new life"]]
    .map(([kind, name]) => [kind, name, (chart.marks ?? []).filter(mark => mark[0] === kind).length]).filter(([, , n]) => n),
  draw() {
    const list = parts(chart, group => ({ line: psns(chart, group) })).filter(part => part.line);
    const marks = (chart.marks ?? []).filter(mark => shown(mark) && ["gap", "late", "repeat", "life"].includes(mark[0]));
    const all = [...list.flatMap(part => part.line), ...marks.flatMap(mark => [mark[3], mark[4]])];
    const low = Math.min(...all), top = Math.max(...all, low + 1);
    const height = line => y(line - low, top - low);
    const lives = marks.filter(mark => mark[0] === "life").map(([, time]) => time);
    const path = list.map(({ from, to, line }, i) => {
      if (i && lives.some(time => list[i - 1].from <= time && time < to)) return `M${x(to)} ${height(line[1])}`;
      return `${i ? "L" : "M"}${x(from)} ${height(line[0])}L${x(to)} ${height(line[1])}`;
    }).join("");
    return {
      svg: drawn("psn", path) + marks.map(mark => psnMark(mark, height)).join(""), low: all.length ? low : 0,
      top: all.length ? top : 0, write: scaled, entire: true,
    };
  },
  read(time) {
    const group = groupAt(chart, time), line = group && psns(chart, group);
    return line ? String(line[1]) : "";
  },
} : null;

function psnMark(mark, height) {
  const [kind, time, , from, to] = mark, title = markTitle(mark);
  if (kind === "life") return stroke(kind, time, 0, 100, title);
  const longer = kind === "gap" ? 8 : 0; // tall enough to be seen
  return stroke(kind, time, height(from) + longer, height(to) - longer, title);
}

// eventLane draws what came, each at its exact time, and where there was no room for
// that, in which bins.
const eventLane = (chart, kinds) => {
  const marks = chart.marks ?? [];
  const there = kinds.filter(([kind, , field]) => chart[field] || marks.some(mark => mark[0] === kind));
  const count = ([kind, , field]) => field ? sum(chart[field], [0, Infinity]) : marks.filter(mark => mark[0] === kind).length;
  return there.length ? {
    name: "Answers", kind: "events", legend: there.map(one => [one[0], one[1], count(one)]),
    draw() {
      const high = 100 / there.length;
      return {
        svg: there.map(([kind, , field], row) => {
          const from = row * high + high * 0.15, to = (row + 1) * high - high * 0.15;
          const some = field && chart.more ? parts(chart, group => ({ n: sum(chart[field], group) })).filter(part => part.n) : [];
          return drawn(kind + " some", some.map(part => `M${x(part.from)} ${to}V${from}H${x(part.to)}V${to}`).join("")) +
            marks.filter(mark => mark[0] === kind && shown(mark)).map(mark => stroke(kind, mark[1], from, to, markTitle(mark))).join("");
        }).join(""),
      };
    },
    read(time) {
      const near = (view.to - view.from) / 200;
      const found = marks.filter(mark => there.some(([kind]) => kind === mark[0]) && Math.abs(mark[1] - time) <= near);
      return found.length ? found[0][5] + (found.length > 1 ? `, ${found.length - 1} more` : "") : "";
    },
  } : null;
};

// queueLane draws the depth of each node's queue.
const queueLane = nodes => nodes ? {
  name: "Queue depth", kind: "queues", tall: true,
  legend: nodes.map(({ node, depth }, i) => ["node" + i, "node " + node, Math.max(...depth)]),
  draw() {
    const list = nodes.map(node => ({ ...node, edges: node.depth.map((_, i) => node.from + i * node.width) }));
    const inView = ({ edges, width }, i) => edges[i] + width > view.from && edges[i] < view.to;
    const top = Math.max(0, ...list.flatMap(node => node.depth.filter((_, i) => inView(node, i))));
    return {
      top, write: scaled,
      svg: list.map((node, n) => drawn("node" + n, node.depth.map((depth, i) => depth === null || !inView(node, i) ? "" :
        `M${x(node.edges[i])} ${y(depth, top)}H${Math.max(x(node.edges[i] + node.width), x(node.edges[i]) + 3)}`).join(""),
      "node " + node.node)).join(""),
    };
  },
  read(time) {
    return nodes.map(({ node, from, width, depth }) => [node, depth[Math.floor((time - from) / width)] ?? null])
      .filter(([, depth]) => depth !== null).map(([node, depth]) => `${node}: ${depth}`).join(", ");
  },
} : null;

// pauseLane draws when a priority of a link was paused: as high as the part of the time
// that it was, which is all of it for each pause that can be told apart.
const pauseLane = ({ name, pauses }) => ({
  name: "Paused", unit: name, kind: "pauses",
  draw() {
    const width = (view.to - view.from) / columns.bar, short = new Map();
    const high = part => y(Math.max(Math.min(part, 1) * 0.9, 0.12), 1);
    const box = (from, to, part) => `M${x(from)} 100V${high(part)}H${Math.max(x(to), x(from) + 1.5)}V100Z`;
    const wide = pauses.filter(shownPause).map(pause => {
      const [from, to, paused, , frame] = pause, title = `from frame ${frame} on, +${shortTime(from)}: ${pauseText(pause)}`;
      if (to - from >= width) return drawn(paused < to - from ? "pause some" : "pause", box(from, to, paused / (to - from)), title);
      const column = Math.floor((from - view.from) / width);
      short.set(column, (short.get(column) ?? 0) + paused);
      return "";
    });
    const together = [...short].map(([column, paused]) =>
      box(view.from + column * width, view.from + (column + 1) * width, paused / width));
    return { svg: wide.join("") + drawn("pause", together.join("")) };
  },
  read(time) {
    const found = pauses.find(([from, to]) => from <= time && time <= to);
    return found ? pauseText(found) : "";
  },
});

const shownPause = ([from, to]) => to >= view.from && from <= view.to;
const pauseText = ([from, to, paused, frames]) =>
  `paused ${shortTime(paused)}${paused < to - from ? " of " + shortTime(to - from) : ""} by ${frames} XOFF`;

// tickMarks returns the lines at an axis and what is written there.
function tickMarks({ low = 0, top, write, entire }) {
  if (!(top > low)) return { lines: "", labels: [] };
  const at = ticks(low, top, entire ? Math.min(3, top - low) : 3).filter(n => n > low || n === 0);
  return {
    lines: at.map(n => `<path class="grid" d="M0 ${y(n - low, top - low)}H1000"/>`).join(""),
    labels: at.map(n => element("span", { class: "tick", style: `top: ${y(n - low, top - low)}%` }, n ? write(n) : "0")),
  };
}

// timeLines are those of the ticks of the time.
const timeLines = () => timeTicks().map(time => `<path class="grid" d="M${x(time)} 0V100"/>`).join("");
const sinceStart = time => (time > 0 ? "+" + duration(Math.round(time)) : "0");
const timeTicks = () => ticks(view.from, view.to, innerWidth < 640 ? 3 : 8);

// drawLane makes what shows a lane, and draws it; with is what it belongs to.
function drawLane(lane, belongs) {
  const says = element("span", { class: "value" }), legend = element("span", { class: "legend" });
  for (const [kind, name, n] of lane.legend ?? []) {
    legend.append(element("span", {}, element("i", { class: "key " + kind }), `${name}: ${n} `));
  }
  const label = element("div", { class: "label" }, element("b", {}, lane.name), " ",
    element("span", { class: "faint" }, lane.unit ?? ""), legend);
  const plot = element("div", { class: "plot" });
  plot.innerHTML = `<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img"></svg><i class="cursor"></i>`;
  const svg = plot.firstChild;
  svg.setAttribute("aria-label", `${lane.name} over time, ${belongs}`);
  plot.append(says);
  follow(plot);
  const draw = () => {
    const picture = lane.draw(), { lines, labels } = tickMarks(picture);
    svg.innerHTML = timeLines() + lines + picture.svg;
    plot.querySelectorAll(".tick").forEach(e => e.remove());
    plot.append(...labels);
  };
  const read = () => { says.textContent = cursor === null ? "" : lane.read(cursor); };
  draw();
  read();
  const node = element("div", { class: `lane of-${lane.kind}${lane.tall ? " tall" : ""}` }, label, plot);
  return { node, draw, read };
}

// drawLanes draws several, and keeps them as the view is, until they are given up.
function drawLanes(lanes, belongs) {
  const all = lanes.filter(lane => lane).map(lane => drawLane(lane, belongs));
  const node = element("div", { class: "lanes" }, ...all.map(one => one.node));
  const draw = () => all.forEach(one => one.draw()), read = () => all.forEach(one => one.read());
  watchers.view.add(draw);
  watchers.cursor.add(read);
  return { node, giveUp() { watchers.view.delete(draw); watchers.cursor.delete(read); } };
}

const answerKinds = [
  ["nak", "NAK", "naks"], ["rnr", "RNR NAK", "rnrs"], ["cnp", "CNP", null], ["fast", "Fast CNP", null],
  ["ppfc", "PPFC", "ppfc"], ["fcn", "FCN", null], ["proxy", "proxy message", null],
];

// flowLanes are those of a flow.
function flowLanes(chart) {
  const nodes = chart.nodes?.map(node => ({ ...node, from: chart.from }));
  return [
    rateLane(chart),
    countLane("Congestion", chart, [["ce", "CE", "ce"], ["cnps", "CNP", "cnp"]]),
    psnLane(chart), eventLane(chart, answerKinds), rttLane(chart), queueLane(nodes),
  ];
}

// totalLanes are those of all flows together, and of links.
function totalLanes(totals) {
  return [
    ...(totals ? [
      rateLane(totals),
      countLane("Congestion", totals, [["ce", "CE", "ce"], ["cnps", "CNP", "cnp"]]),
      countLane("Sequence", totals, [["missing", "missing", "gap"], ["late", "out of order", "late"], ["repeats", "repeated", "repeat"]]),
      countLane("Refused, stopped", totals, [["naks", "NAK", "nak"], ["rnrs", "RNR NAK", "rnr"], ["ppfc", "PPFC", "ppfc"]]),
      rttLane(totals),
    ] : []),
    ...(data.pauses ?? []).map(pauseLane),
  ];
}
