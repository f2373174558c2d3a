// A lane draws one value over the visible time: a picture 1000 wide and 100 high in any size on the
// screen, with ticks at its side and the value at the cursor.

const columns = { area: 150, bar: 400 }; // how many parts of a picture are told apart
const x = time => +(Math.min(Math.max(share(time), -0.01), 1.01) * 1000).toFixed(2);
const y = (n, top) => +(100 - (100 * n) / (top || 1)).toFixed(2);

// steps draws values as an area with a stepped top.
function steps(parts) {
  let path = "";
  parts.forEach(({ from, to, height }, i) => {
    const begins = i === 0 || parts[i - 1].to !== from;
    path += (begins ? (i ? "V100" : "") + `M${x(from)} 100` : "") + `V${height}H${x(to)}`;
  });
  return path && path + "V100";
}

// bars draws each value as a bar, with the kinds side by side.
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

// parts returns the visible groups of bins, each with its value by of.
const parts = (series, of, many = columns.bar) => groups(series.edges, view, many)
  .map(group => ({ from: series.edges[group[0]], to: series.edges[group[1]], ...of(group) }));

// groupAt returns the drawn group of bins at a time.
function groupAt(series, time, many = columns.bar) {
  return groups(series.edges, view, many).find(([i, j]) => series.edges[i] <= time && time < series.edges[j]);
}

// tickLabel returns the label of a line at an axis. Its box moves from below the line at the top of the plot to above the
// line at its bottom, so that it does not reach the labels of the next plot.
function tickLabel(at, text) {
  return element("span", { class: "tick", style: `top: ${at}%; transform: translateY(-${at}%)` }, text);
}

// tickMarks returns the lines at an axis with their labels.
function tickMarks({ low = 0, top, write, entire }) {
  if (!(top > low)) return { lines: "", labels: [] };
  const at = ticks(low, top, entire ? Math.min(3, top - low) : 3).filter(n => n > low || n === 0);
  return {
    lines: at.map(n => `<path class="grid" d="M0 ${y(n - low, top - low)}H1000"/>`).join(""),
    labels: at.map(n => tickLabel(y(n - low, top - low), n ? write(n) : "0")),
  };
}

// timeLines returns the lines at the ticks of the time.
const timeLines = () => timeTicks().map(time => `<path class="grid" d="M${x(time)} 0V100"/>`).join("");
const sinceStart = time => (time > 0 ? "+" + duration(Math.round(time)) : "0");
const timeTicks = () => ticks(view.from, view.to, innerWidth < 640 ? 3 : 8);

// drawLane makes the elements of a lane, and draws it; with is passed to the lane.
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

// drawLanes draws several lanes, and redraws them with the view until they are removed.
function drawLanes(lanes, belongs) {
  const all = lanes.filter(lane => lane).map(lane => drawLane(lane, belongs));
  const node = element("div", { class: "lanes" }, ...all.map(one => one.node));
  const draw = () => all.forEach(one => one.draw()), read = () => all.forEach(one => one.read());
  watchers.view.add(draw);
  watchers.cursor.add(read);
  return { node, giveUp() { watchers.view.delete(draw); watchers.cursor.delete(read); } };
}

