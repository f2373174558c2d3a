// The kinds of lanes: drawing, and values at a time.

// rateLane draws the bits per second.
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

// countLane draws the counts of some fields: [field, name, class]. It returns no lane if all are 0.
function countLane(name, series, kinds) {
  const there = kinds.filter(([field]) => series[field]);
  if (!there.length) return null;
  const counts = group => there.map(([field]) => sum(series[field], group));
  return {
    name, kind: "counts",
    legend: there.map(([field, name, kind]) => [kind, name, sum(series[field], [0, Infinity])]),
    draw() {
      const list = parts(series, group => ({ values: counts(group) }));
      const top = Math.max(...list.flatMap(part => part.values), 1);
      const paths = there.map(([, , kind], i) => drawn(kind, bars(list, i, there.length, top)));
      return { svg: paths.join(""), top, write: scaled, entire: true };
    },
    read(time) {
      const group = groupAt(series, time);
      if (!group) return "";
      return counts(group).map((n, i) => [n, there[i][1]]).filter(([n]) => n).map(one => one.join(" ")).join(", ");
    },
  };
}

// rttLane draws the longest round trip times.
function rttLane(series) {
  if (!series.rtt) return null;
  return {
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
  };
}

// Marks are [kind, time, frame, first PSN, last PSN, text].
const inView = ([, time]) => time >= view.from && time <= view.to;
const stroke = (kind, time, from, to, title) => drawn(kind, `M${x(time)} ${from}V${to}`, title);
const markTitle = ([, time, frame, , , text]) => `frame ${frame}, +${shortTime(time)}: ${text}`;
const ofKind = (marks, kind) => marks.filter(mark => mark[0] === kind);

const psnKinds = [["gap", "missing"], ["late", "out of order"], ["repeat", "retransmitted"], ["life", "new connection"]];

// psnLane draws the progress of the PSNs, with events on it.
function psnLane(chart) {
  if (!chart.psn) return null;
  const marks = (chart.marks ?? []).filter(([kind]) => psnKinds.some(one => one[0] === kind));
  return {
    name: "PSN", unit: "since the first", kind: "psns", tall: true,
    legend: psnKinds.map(([kind, name]) => [kind, name, ofKind(marks, kind).length]).filter(([, , n]) => n),
    draw() {
      const list = parts(chart, group => ({ line: psns(chart, group) })).filter(part => part.line);
      const seen = marks.filter(inView);
      const all = [...list.flatMap(part => part.line), ...seen.flatMap(([, , , first, last]) => [first, last])];
      if (!all.length) return { svg: "" };
      const low = Math.min(...all), top = Math.max(...all, low + 1);
      const height = line => y(line - low, top - low);
      const path = drawn("psn", psnPath(list, ofKind(seen, "life"), height));
      const svg = path + seen.map(mark => psnMark(mark, height)).join("");
      return { svg, low, top, write: scaled, entire: true };
    },
    read(time) {
      const group = groupAt(chart, time), line = group && psns(chart, group);
      return line ? String(line[1]) : "";
    },
  };
}

// psnPath goes from the first PSN of each part to the last, and starts again with a new connection.
function psnPath(list, lives, height) {
  return list.map(({ from, to, line }, i) => {
    if (i && lives.some(([, time]) => list[i - 1].from <= time && time < to)) return `M${x(to)} ${height(line[1])}`;
    return `${i ? "L" : "M"}${x(from)} ${height(line[0])}L${x(to)} ${height(line[1])}`;
  }).join("");
}

function psnMark(mark, height) {
  const [kind, time, , first, last] = mark, title = markTitle(mark);
  if (kind === "life") return stroke(kind, time, 0, 100, title);
  const longer = kind === "gap" ? 8 : 0; // tall enough to be seen
  return stroke(kind, time, height(first) + longer, height(last) - longer, title);
}

// eventLane draws events, [kind, name, field], a row each: at exact times, or, if there were too
// many, as the bins that contain some.
function eventLane(chart, kinds) {
  const marks = chart.marks ?? [];
  const there = kinds.filter(([kind, , field]) => chart[field] || ofKind(marks, kind).length);
  if (!there.length) return null;
  const high = 100 / there.length;
  const draw = ([kind, , field], row) => {
    const from = (row + 0.15) * high, to = (row + 0.85) * high;
    const some = field && chart.more ? parts(chart, group => ({ n: sum(chart[field], group) })) : [];
    const boxes = some.filter(part => part.n).map(part => `M${x(part.from)} ${to}V${from}H${x(part.to)}V${to}`).join("");
    const exact = ofKind(marks, kind).filter(inView).map(mark => stroke(kind, mark[1], from, to, markTitle(mark)));
    return drawn(kind + " some", boxes) + exact.join("");
  };
  const count = ([kind, , field]) => (field ? sum(chart[field], [0, Infinity]) : ofKind(marks, kind).length);
  return {
    name: "Answers", kind: "events", legend: there.map(one => [one[0], one[1], count(one)]),
    draw: () => ({ svg: there.map(draw).join("") }),
    read(time) {
      const near = (view.to - view.from) / 200;
      const found = there.flatMap(([kind]) => ofKind(marks, kind)).filter(mark => Math.abs(mark[1] - time) <= near);
      return found.length ? found[0][5] + (found.length > 1 ? `, ${found.length - 1} more` : "") : "";
    },
  };
}

// queueLane draws the depth of each node's queue.
function queueLane(nodes) {
  if (!nodes) return null;
  const begins = (node, i) => node.from + i * node.width;
  const seen = (node, i) => node.depth[i] !== null && begins(node, i + 1) > view.from && begins(node, i) < view.to;
  return {
    name: "Queue depth", kind: "queues", tall: true,
    legend: nodes.map(({ node, depth }, i) => ["node" + i, "node " + node, Math.max(...depth)]),
    draw() {
      const top = Math.max(0, ...nodes.flatMap(node => node.depth.filter((_, i) => seen(node, i))));
      const line = (node, n, i) => { // beside those of the other nodes
        const from = x(begins(node, i)) + n * 4, to = Math.max(x(begins(node, i + 1)), from + 4);
        return `M${from} 100V${y(node.depth[i], top)}H${to}`;
      };
      const paths = nodes.map((node, n) =>
        drawn("node" + n, node.depth.map((_, i) => (seen(node, i) ? line(node, n, i) : "")).join(""), "node " + node.node));
      return { svg: paths.join(""), top, write: scaled };
    },
    read(time) {
      return nodes.map(({ node, from, width, depth }) => [node, depth[Math.floor((time - from) / width)] ?? null])
        .filter(([, depth]) => depth !== null).map(one => one.join(": ")).join(", ");
    },
  };
}

// Pauses are [from, to, paused time, XOFF frames, first of these frames].
const pauseInView = ([from, to]) => to >= view.from && from <= view.to;
const pauseText = ([from, to, paused, frames]) =>
  `paused ${shortTime(paused)}${paused < to - from ? " of " + shortTime(to - from) : ""} by ${frames} XOFF`;
const pauseTitle = pause => `from frame ${pause[4]} on, +${shortTime(pause[0])}: ${pauseText(pause)}`;

// pauseBox has a height in proportion to the paused time.
function pauseBox(from, to, part) {
  const height = y(Math.max(Math.min(part, 1) * 0.9, 0.12), 1);
  return `M${x(from)} 100V${height}H${x(to)}V100Z`;
}

// pauseLane draws the pauses of a priority of a link: single pauses if they are wide enough,
// otherwise the paused part of the time.
const pauseLane = ({ name, pauses }) => ({
  name: "Paused", unit: name, kind: "pauses",
  draw() {
    const width = (view.to - view.from) / columns.bar, short = new Map();
    let svg = "";
    for (const pause of pauses.filter(pauseInView)) {
      const [from, to, paused] = pause;
      if (to - from >= width) {
        const kind = paused < to - from ? "pause some" : "pause";
        svg += drawn(kind, pauseBox(from, to, paused / (to - from)), pauseTitle(pause));
        continue;
      }
      const column = Math.floor((from - view.from) / width);
      short.set(column, (short.get(column) ?? 0) + paused);
    }
    const begins = column => view.from + column * width;
    const boxes = [...short].map(([column, paused]) => pauseBox(begins(column), begins(column + 1), paused / width));
    return { svg: svg + drawn("pause", boxes.join("")) };
  },
  read(time) {
    const found = pauses.find(([from, to]) => from <= time && time <= to);
    return found ? pauseText(found) : "";
  },
});

const answerKinds = [
  ["nak", "NAK", "naks"], ["rnr", "RNR NAK", "rnrs"], ["cnp", "CNP", null], ["fast", "Fast CNP", null],
  ["ppfc", "PPFC", "ppfc"], ["fcn", "FCN", null], ["proxy", "proxy message", null],
];

const congestionKinds = [["ce", "CE", "ce"], ["cnps", "CNP", "cnp"]];
const sequenceKinds = [
  ["missing", "missing", "gap"], ["late", "out of order", "late"], ["repeats", "retransmitted", "repeat"],
];
const refusalKinds = [["naks", "NAK", "nak"], ["rnrs", "RNR NAK", "rnr"], ["ppfc", "PPFC", "ppfc"]];

// flowLanes returns the lanes of a flow.
function flowLanes(chart) {
  const nodes = chart.nodes?.map(node => ({ ...node, from: chart.from }));
  return [
    rateLane(chart),
    countLane("Congestion", chart, congestionKinds),
    psnLane(chart), eventLane(chart, answerKinds), rttLane(chart), queueLane(nodes),
  ];
}

// totalLanes returns the lanes of all flows together, and of links.
function totalLanes(totals) {
  return [
    ...(totals ? [
      rateLane(totals),
      countLane("Congestion", totals, congestionKinds),
      countLane("Sequence", totals, sequenceKinds),
      countLane("NAKs, PPFC", totals, refusalKinds),
      rttLane(totals),
    ] : []),
    ...(data.pauses ?? []).map(pauseLane),
  ];
}
