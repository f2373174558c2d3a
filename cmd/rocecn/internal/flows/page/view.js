// The common axis of time: visible part, and cursor. Times are nanoseconds since the beginning.

const data = JSON.parse(document.querySelector("#data").textContent);
const whole = { from: 0, to: Math.max(data.span, 1000) };
const narrowest = 1000; // nanoseconds
const view = { ...whole };
let cursor = null;
const watchers = { view: new Set(), cursor: new Set() };

// soon calls a function once before the next redraw, for any number of calls.
function soon(call) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; call(); });
  };
}

const viewChanged = soon(() => watchers.view.forEach(call => call()));
const cursorChanged = soon(() => {
  const at = cursor === null ? -1 : share(cursor);
  document.documentElement.style.setProperty("--cursor", at);
  document.documentElement.classList.toggle("pointing", at >= 0 && at <= 1);
  watchers.cursor.forEach(call => call());
});

// share returns the position of a time in the view, from 0 to 1.
const share = time => (time - view.from) / (view.to - view.from);
const timeAt = part => view.from + part * (view.to - view.from);

// show shows a part of the time, limited to the capture.
function show(from, to) {
  const width = Math.min(Math.max(to - from, narrowest), whole.to);
  view.from = Math.min(Math.max(from, 0), whole.to - width);
  view.to = view.from + width;
  viewChanged();
  cursorChanged();
}

// zoom multiplies the width of the visible part; the given time keeps its position.
function zoom(factor, around = (view.from + view.to) / 2) {
  const width = Math.min(Math.max((view.to - view.from) * factor, narrowest), whole.to);
  const from = around - share(around) * width;
  show(from, from + width);
}

const pan = part => show(timeAt(part), timeAt(1 + part));
const showAll = () => show(whole.from, whole.to);

function point(time) {
  cursor = time === null ? null : Math.min(Math.max(time, 0), whole.to);
  cursorChanged();
}

// reach moves the cursor to a time, and makes it visible.
function reach(time) {
  const width = view.to - view.from;
  if (time < view.from || time > view.to) show(time - width / 2, time + width / 2);
  point(time);
}

// look shows the surroundings of an event.
function look(time) {
  const width = Math.min(view.to - view.from, Math.max(whole.to / 50, 40 * narrowest));
  show(time - width / 2, time + width / 2);
  point(time);
}

// keys are the keys that the axis handles when it has the focus.
const keys = {
  ArrowLeft: big => reach((cursor ?? view.to) - (view.to - view.from) / (big ? 10 : 100)),
  ArrowRight: big => reach((cursor ?? view.from) + (view.to - view.from) / (big ? 10 : 100)),
  Home: () => reach(0),
  End: () => reach(whole.to),
  "+": () => zoom(0.5, cursor ?? undefined),
  "=": () => zoom(0.5, cursor ?? undefined),
  "-": () => zoom(2, cursor ?? undefined),
  0: showAll,
  Escape: () => { point(null); showAll(); },
  n: () => next(1),
  p: () => next(-1),
};

// next moves to the next or previous event of the flows with charts.
function next(direction) {
  const now = cursor ?? (direction > 0 ? -1 : whole.to + 1);
  const later = events.filter(time => direction * (time - now) > 0.5);
  if (later.length) reach(direction > 0 ? later[0] : later[later.length - 1]);
}

const events = [...new Set((data.charts ?? []).flatMap(chart => (chart.marks ?? []).map(mark => mark[1])))]
  .sort((a, b) => a - b);

function onKey(event) {
  const act = keys[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  act(event.shiftKey);
  event.preventDefault();
}

// follow lets a pointer move the cursor, and select a part; at returns the time at a position, as a
// part of the width.
function follow(plot, at = timeAt) {
  let began = null, chosen = null;
  const part = event => {
    const box = plot.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  };
  const forget = () => {
    chosen?.remove();
    chosen = began = null;
  };
  plot.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    began = part(event);
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", event => {
    const now = part(event);
    point(at(now));
    if (began === null) return;
    chosen ??= plot.appendChild(element("i", { class: "chosen" }));
    chosen.style.left = Math.min(began, now) * 100 + "%";
    chosen.style.width = Math.abs(now - began) * 100 + "%";
  });
  plot.addEventListener("pointerup", event => {
    const now = part(event), moved = began !== null && Math.abs(now - began) * plot.clientWidth > 4;
    if (moved) show(at(Math.min(began, now)), at(Math.max(began, now)));
    forget();
  });
  plot.addEventListener("pointercancel", forget);
  plot.addEventListener("dblclick", showAll);
  plot.addEventListener("wheel", event => {
    if (event.ctrlKey || event.metaKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, at(part(event)));
    else if (event.shiftKey) pan((event.deltaY || event.deltaX) > 0 ? 0.1 : -0.1);
    else return;
    event.preventDefault();
  }, { passive: false });
}
