"use strict";
// Numbers in the formats of rocecn flows.

// duration formats nanoseconds as Go does.
function duration(ns) {
  const trim = n => String(Number(n.toPrecision(12)));
  if (ns < 1e3) return trim(ns) + "ns";
  if (ns < 1e6) return trim(ns / 1e3) + "µs";
  if (ns < 1e9) return trim(ns / 1e6) + "ms";
  if (ns < 60e9) return trim(ns / 1e9) + "s";
  const minutes = Math.floor(ns / 60e9), hours = Math.floor(minutes / 60);
  return (hours ? hours + "h" : "") + minutes % 60 + "m" + trim((ns - minutes * 60e9) / 1e9) + "s";
}

// shortTime formats nanoseconds with three digits, sometimes four.
function shortTime(ns) {
  if (ns < 0) return "-" + shortTime(-ns);
  let digit = 1;
  while (Math.floor(ns / 1000) >= digit) digit *= 10;
  return duration(Math.round(ns / digit) * digit);
}

// scaled formats a number with at most four digits.
function scaled(n) {
  if (n < 10000) return n.toFixed(0);
  for (const unit of "kMGT") {
    n /= 1000;
    if (n < 1000) return n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0) + unit;
  }
  return (n / 1000).toFixed(0) + "P";
}

const none = "–";

// formats are the formats of cells, by the kind of their column.
const formats = {
  text: String,
  number: String,
  count: n => n.toFixed(0),
  qp: n => "0x" + n.toString(16).padStart(6, "0"),
  rate: scaled,
  share: n => (n === 0 ? "0" : n.toFixed(1) + "%"),
  time: shortTime,
};

const written = (kind, value) => (value === null ? none : formats[kind](value));

// element makes an element with properties and children.
function element(name, properties = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") e.className = value;
    else if (key === "on") for (const [event, f] of Object.entries(value)) e.addEventListener(event, f);
    else e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = text => String(text).replace(/[&<>"]/g, c => escapes[c]);
