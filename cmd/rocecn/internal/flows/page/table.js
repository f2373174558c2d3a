// The table of flows: filtered, sorted, grouped by receiver. Each row has a strip over time, and
// opens with its lanes.

const rowTimes = 2, rowColours = 4, firstCell = 5;
const charts = new Map((data.charts ?? []).map(chart => [chart.row, unpacked(chart)]));
const rows = data.rows.map((row, number) => ({
  number, row, chart: charts.get(number), src: data.addresses[row[0]], dst: data.addresses[row[1]],
}));
const nameOf = ({ src, dst }) => src + " → " + dst;

// Columns with only zeros or only one value are omitted, and named below the table.
const allColumns = data.columns.map((column, i) => ({ ...column, i }));
const isEmpty = ({ kind, i }) => kind === "count" && rows.every(({ row }) => !row[firstCell + i]);
const isSame = ({ kind, i }) => ["text", "number"].includes(kind) && rows.length > 1 &&
  rows.every(({ row }) => row[firstCell + i] === rows[0].row[firstCell + i]);
const shownColumns = allColumns.filter(column => !isEmpty(column) && !isSame(column));

// leftOut reports the omitted columns.
function leftOut() {
  const empty = allColumns.filter(isEmpty).map(({ name }) => name);
  const same = allColumns.filter(isSame)
    .map(({ name, kind, i }) => `${name} ${written(kind, rows[0].row[firstCell + i])}`);
  const says = (text, names) => (names.length ? [text + names.join(", ")] : []);
  return [...says("The same everywhere: ", same), ...says("0 everywhere: ", empty)].join(". ");
}

const table = document.querySelector("#flows table");
const filterBox = document.querySelector("#filter");
const counted = document.querySelector("#counted");
const grouped = document.querySelector("#grouped");
const more = document.querySelector("#more");
const page = 100; // rows that are shown at first, and each time that more are wanted
const state = { column: null, up: false, limit: page, closed: new Set(), open: new Map() };

const byName = { name: "Flow", kind: "text", help: "source and destination", key: nameOf };
const byTime = { name: "Over time", kind: "time", help: "since its first request", key: ({ row }) => row[rowTimes] };
const byColumn = column => ({ ...column, key: ({ row }) => row[firstCell + column.i] });
const headings = [byName, byTime, ...shownColumns.map(byColumn)];

// ranks returns the rank of each text, as numbers are faster to compare.
function ranks(texts) {
  const order = [...new Set(texts)].sort(new Intl.Collator("en", { numeric: true }).compare);
  return new Map(order.map((text, place) => [text, place]));
}

// sorted returns rows sorted by a column, rows without a value last.
function sorted(list) {
  if (!state.column) return list;
  const { kind, key } = state.column, sign = state.up ? 1 : -1;
  const last = Infinity, rank = kind === "text" ? ranks(list.map(key)) : null;
  const keys = new Map(list.map(row => [row, rank ? rank.get(key(row)) : key(row) === null ? last : sign * key(row)]));
  const order = rank ? sign : 1;
  return list.toSorted((a, b) => order * (keys.get(a) - keys.get(b)) || a.number - b.number);
}

// The words of the filter: a comparison with a column, as in ce>1, or a text in a row.
const comparisons = { "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => a === b };

function condition(word) {
  const [, name, sign, text] = /^([a-z0-9/]+)([<>=])(\S+)$/.exec(word) ?? [];
  const column = name && data.columns.findIndex(column => column.name.toLowerCase().replaceAll(" ", "") === name);
  if (name && column >= 0) {
    const value = data.columns[column].kind === "text" ? text : Number(text);
    return ({ row }) => {
      const cell = row[firstCell + column];
      return cell !== null && comparisons[sign](typeof cell === "string" ? cell.toLowerCase() : cell, value);
    };
  }
  if (word === "trouble") return ({ row }) => /[ry]/.test(row[rowColours]);
  return row => searched(row).includes(word);
}

// searched returns the text of a row that the filter searches.
function searched(row) {
  row.text ??= [nameOf(row), ...data.columns.map(({ kind }, i) => ["qp", "text", "number"].includes(kind) ?
    written(kind, row.row[firstCell + i]) : "")].join(" ").toLowerCase();
  return row.text;
}

function filtered(list) {
  const conditions = filterBox.value.toLowerCase().split(/\s+/).filter(word => word).map(condition);
  return conditions.length ? list.filter(row => conditions.every(holds => holds(row))) : list;
}

// groupsOf groups rows by their receiver, in the order of the first row of each.
function groupsOf(list) {
  const byReceiver = new Map();
  for (const row of list) {
    if (!byReceiver.has(row.dst)) byReceiver.set(row.dst, []);
    byReceiver.get(row.dst).push(row);
  }
  return byReceiver;
}

// together formats the total of a column: a sum, or the maximum.
function together(list, { kind, i }) {
  const values = list.map(({ row }) => row[firstCell + i]).filter(value => value !== null);
  if (!values.length) return "";
  if (kind === "count" || kind === "rate") return written(kind, values.reduce((a, b) => a + b, 0));
  const greatest = values.reduce((a, b) => Math.max(a, b));
  if (kind === "share" || kind === "time") return (greatest ? "≤ " : "") + written(kind, greatest);
  return "";
}

function groupRow(receiver, list) {
  const open = !state.closed.has(receiver);
  const toggle = element("button", {
    class: "name", "aria-expanded": open, on: {
      click() {
        if (open) state.closed.add(receiver);
        else state.closed.delete(receiver);
        render();
        table.querySelector(`[data-receiver="${receiver}"] button`).focus();
      },
    },
  }, "to " + receiver);
  const count = element("span", { class: "faint" }, list.length + (list.length === 1 ? " flow" : " flows"));
  const head = element("th", { scope: "rowgroup" }, toggle, count);
  return element("tr", { class: "group", "data-receiver": receiver }, head,
    element("td", {}), ...shownColumns.map(column => element("td", {}, together(list, column))));
}

const colours = { r: "red", y: "yellow", n: "" };

function flowRow(row, inGroup) {
  const open = state.open.has(row);
  const toggle = element("button", {
    class: "name", "aria-expanded": open, "aria-label": nameOf(row), on: { click: () => toggleFlow(row) },
  }, inGroup ? "from " + row.src : nameOf(row));
  const cells = shownColumns.map(({ name, kind, i }) => element("td",
    { class: colours[row.row[rowColours][i]], "data-name": name }, written(kind, row.row[firstCell + i])));
  return element("tr", { "data-flow": row.number, class: open ? "open" : "" },
    element("th", { scope: "row" }, toggle), element("td", { class: "strip" }, strip(row)), ...cells);
}

// strip draws a flow in the table: its rate and its trouble, or the period from its first to its
// last packet.
function strip(row) {
  const box = element("div", { class: "plot" });
  follow(box);
  box.innerHTML =
    `<svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true"></svg><i class="cursor"></i>`;
  box.draw = () => { box.firstChild.innerHTML = stripPaths(row); };
  box.draw();
  return box;
}

const trouble = ["gap", "repeat", "nak", "rnr"];

function stripPaths({ row, chart }) {
  const first = x(row[rowTimes]), last = x(row[rowTimes + 1]);
  if (!chart) return drawn("there", `M${first} 60H${Math.max(last, first + 2)}`);
  const list = groups(chart.edges, view, 120)
    .map(group => ({ from: chart.edges[group[0]], to: chart.edges[group[1]], value: rate(chart, group) }));
  const top = Math.max(...list.map(part => part.value), 0);
  list.forEach(part => { part.height = y(part.value, top * 1.2); });
  const at = kinds => (chart.marks ?? []).filter(mark => kinds.includes(mark[0]) && inView(mark))
    .map(mark => `M${x(mark[1])} 0V100`).join("");
  return drawn("rate", steps(list)) + drawn("cnp", at(["cnp", "fast"])) + drawn("gap", at(trouble));
}

// lookInto returns the row with a flow's lanes and its events, frame by frame.
function lookInto(row) {
  const cell = element("div", {});
  const detail = element("tr", { class: "detail" }, element("td", { colspan: headings.length }, cell));
  const { chart } = row;
  if (!chart) {
    const why = `Only ${charts.size} flows have charts: rocecn flows -sort and -address choose which.`;
    cell.append(element("p", {}, why));
    return { detail, giveUp() {} };
  }
  cell.append(element("p", {}, chart.remarks));
  const lanes = drawLanes(flowLanes(chart), nameOf(row));
  cell.append(lanes.node, eventList(chart));
  return { detail, giveUp: lanes.giveUp };
}

function eventList(chart) {
  const marks = chart.marks ?? [];
  if (!marks.length) return "";
  const says = `Frame by frame${chart.more ? `: ${marks.length}, ${chart.more} more are not listed` : ""}`;
  const button = mark => element("button", { on: { click: () => look(mark[1]) } }, markTitle(mark));
  const list = element("ul", { class: "events" }, ...marks.map(mark => element("li", {}, button(mark))));
  return element("details", {}, element("summary", {}, says), list);
}

// turn opens or closes a flow.
function turn(row) {
  const open = state.open.get(row);
  if (open) {
    open.giveUp();
    state.open.delete(row);
  } else {
    state.open.set(row, lookInto(row));
  }
  render();
}

function toggleFlow(row) {
  turn(row);
  table.querySelector(`[data-flow="${row.number}"] button`)?.focus();
}

// openFlow opens a flow, and scrolls to it.
function openFlow(number) {
  const row = rows[number];
  filterBox.value = "";
  state.closed.delete(row.dst);
  const before = filteredRows().indexOf(row);
  state.limit = Math.max(state.limit, Math.ceil((before + 1) / page) * page);
  if (state.open.has(row)) render();
  else toggleFlow(row);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  table.querySelector(`[data-flow="${number}"]`).scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "center" });
}

function filteredRows() {
  const list = sorted(filtered(rows));
  return grouped.checked ? [...groupsOf(list).values()].flat() : list;
}

// render shows the first of the filtered rows, in their order.
function render() {
  const list = sorted(filtered(rows)), bodies = [];
  let room = state.limit, shut = 0;
  const add = (members, inGroup, head) => {
    const body = element("tbody", {}, ...head);
    for (const row of members.slice(0, room)) {
      body.append(flowRow(row, inGroup), ...(state.open.has(row) ? [state.open.get(row).detail] : []));
    }
    room -= Math.min(room, members.length);
    bodies.push(body);
  };
  if (!grouped.checked) {
    add(list, false, []);
  } else {
    for (const [receiver, members] of groupsOf(list)) {
      if (room === 0) break;
      const closed = state.closed.has(receiver);
      if (closed) shut += members.length;
      add(closed ? [] : members, true, [groupRow(receiver, members)]);
    }
  }
  table.querySelectorAll("tbody").forEach(body => body.remove());
  table.append(...bodies);
  const left = list.length - shut - (state.limit - room);
  more.hidden = left <= 0;
  more.textContent = `Show ${Math.min(left, 5 * page)} more of ${list.length}`;
  counted.textContent = list.length === rows.length ? `${rows.length} flows` : `${list.length} of ${rows.length} flows`;
  if (rows.length === 1) counted.textContent = counted.textContent.replace("flows", "flow");
}

function sortBy(heading, cell) {
  const first = heading.kind === "text" || heading === byTime; // what people want at the top
  state.up = state.column === heading ? !state.up : first;
  state.column = heading;
  table.querySelectorAll("thead th").forEach(th => th.removeAttribute("aria-sort"));
  cell.setAttribute("aria-sort", state.up ? "ascending" : "descending");
  render();
}

// head makes the headings, which sort on a click.
function head() {
  table.append(element("thead", {}, element("tr", {}, ...headings.map(heading => {
    const cell = element("th", { scope: "col", title: heading.help });
    cell.append(element("button", { on: { click: () => sortBy(heading, cell) } }, heading.name));
    return cell;
  }))));
}
