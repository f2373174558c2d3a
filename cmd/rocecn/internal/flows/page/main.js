// Initialization of the page.

const overview = document.querySelector("#overview");
const brush = document.querySelector("#brush");
const axis = document.querySelector("#axis");
const range = document.querySelector("#range");

// drawOverview draws the complete time: the rate, and bins with missing or retransmitted requests,
// or NAKs.
function drawOverview() {
  const totals = data.totals && unpacked(data.totals);
  if (!totals) return;
  const now = { ...view };
  Object.assign(view, whole); // x is of the view
  const list = parts(totals, group => ({
    value: rate(totals, group),
    bad: sum(totals.missing, group) + sum(totals.repeats, group) + sum(totals.naks, group) + sum(totals.rnrs, group),
  }));
  const top = Math.max(...list.map(part => part.value), 0);
  list.forEach(part => { part.height = y(part.value, top); });
  const box = (from, to, above, below) => `M${x(from)} ${above}V${below}H${Math.max(x(to), x(from) + 2)}V${above}`;
  const marks = list.filter(part => part.bad).map(({ from, to }) => box(from, to, 0, 18));
  const stops = (data.pauses ?? []).flatMap(lane => lane.pauses).map(([from, to]) => box(from, to, 22, 40));
  overview.querySelector("svg").innerHTML =
    drawn("rate", steps(list)) + drawn("trouble", marks.join("")) + drawn("pause", stops.join(""));
  Object.assign(view, now);
}

// drawAxis draws the visible part of the time.
function drawAxis() {
  brush.style.left = (view.from / whole.to) * 100 + "%";
  brush.style.width = ((view.to - view.from) / whole.to) * 100 + "%";
  axis.replaceChildren(...timeTicks().map(time =>
    element("span", { style: `left: ${share(time) * 100}%` }, sinceStart(time))));
  const all = view.from === 0 && view.to === whole.to;
  range.textContent = all ? `all of ${shortTime(whole.to)}` :
    `${shortTime(view.to - view.from)} from ${sinceStart(view.from)} on`;
}

function readCursor() {
  document.querySelector("#at").textContent = cursor === null ? "" : sinceStart(cursor);
  const slider = document.querySelector("#slider");
  slider.setAttribute("aria-valuenow", Math.round(cursor ?? 0));
  slider.setAttribute("aria-valuetext", cursor === null ? "no cursor" : sinceStart(cursor));
}

const drawStrips = () => document.querySelectorAll(".strip .plot").forEach(plot => plot.draw());

// openFirst opens the first flows with charts, for printing.
function openFirst(count) {
  rows.slice(0, count).filter(row => row.chart && !state.open.has(row)).forEach(turn);
}

function listen() {
  document.querySelector("#slider").addEventListener("keydown", onKey);
  follow(overview, part => part * whole.to);
  for (const [id, act] of [["in", () => zoom(0.5, cursor ?? undefined)], ["out", () => zoom(2, cursor ?? undefined)],
    ["earlier", () => pan(-0.5)], ["later", () => pan(0.5)], ["all", showAll], ["next", () => next(1)]]) {
    document.getElementById(id).addEventListener("click", act);
  }
  filterBox.addEventListener("input", () => { state.limit = page; render(); });
  grouped.addEventListener("change", render);
  more.addEventListener("click", () => { state.limit += 5 * page; render(); });
  document.querySelectorAll("[data-open]").forEach(button =>
    button.addEventListener("click", () => openFlow(Number(button.dataset.open))));
  document.querySelectorAll("[data-copy]").forEach(button =>
    button.addEventListener("click", () => navigator.clipboard?.writeText(button.dataset.copy)));
  addEventListener("beforeprint", () => {
    openFirst(3);
    document.querySelectorAll("#verdict details").forEach(details => { details.open = true; });
  });
}

function begin() {
  document.documentElement.classList.add("live");
  point(null);
  head();
  grouped.checked = new Set(rows.map(row => row.dst)).size < rows.length;
  const lanes = drawLanes(totalLanes(data.totals && unpacked(data.totals)), "all flows");
  document.querySelector("#totals").append(lanes.node);
  document.querySelector("#empty").textContent = leftOut();
  [drawAxis, drawStrips].forEach(draw => watchers.view.add(draw));
  watchers.cursor.add(readCursor);
  addEventListener("resize", viewChanged);
  drawOverview();
  drawAxis();
  render();
  if (rows[0]?.chart && matchMedia("(min-width: 40rem)").matches) turn(rows[0]);
  listen();
}

begin();
