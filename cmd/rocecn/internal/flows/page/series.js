// Values over time: consecutive bins of any width.

// unpacked returns a series with the edges of its bins.
function unpacked(series) {
  const edges = [series.from];
  for (const [width, count] of series.widths) {
    for (let i = 0; i < count; i++) edges.push(edges[edges.length - 1] + width);
  }
  return { ...series, edges };
}

// binAt returns the index of the bin at a time, below 0 before the first bin.
function binAt(edges, time) {
  let low = -1, high = edges.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= time) low = middle;
    else high = middle;
  }
  return low;
}

// groups returns the bins to draw as one: [first, end], for the whole view. Narrow bins are grouped
// to the width of one of so many columns. A rest at the end, or before a wide bin, belongs to the
// group before, as a rate needs some time.
function groups(edges, view, columns) {
  const least = (view.to - view.from) / columns, bins = edges.length - 1, list = [];
  let i = Math.max(binAt(edges, view.from), 0);
  while (i < bins && edges[i] < view.to) {
    let j = i + 1;
    while (j < bins && edges[j] - edges[i] < least && edges[j + 1] - edges[j] < least) j++;
    const width = edges[j] - edges[i], before = list[list.length - 1];
    if (before && width < least / 2 && edges[i] - edges[before[0]] < 3 * least) before[1] = j;
    else list.push([i, j]);
    i = j;
  }
  return list;
}

// sum returns the sum of some bins.
function sum(values, [from, to]) {
  let n = 0;
  for (let i = from; i < to && i < (values?.length ?? 0); i++) n += values[i];
  return n;
}

// most returns the maximum of some bins.
function most(values, [from, to]) {
  let n = 0;
  for (let i = from; i < to && i < (values?.length ?? 0); i++) n = Math.max(n, values[i]);
  return n;
}

// rate returns the bits per second of some bins.
const rate = (series, [from, to]) => (sum(series.octets, [from, to]) * 8e9) / (series.edges[to] - series.edges[from]);

// psns returns the first and the last PSN of some bins, or null.
function psns(series, [from, to]) {
  let first = null, last = null;
  for (let i = from; i < to; i++) {
    if (series.psn[2 * i] === null) continue;
    first ??= series.psn[2 * i];
    last = series.psn[2 * i + 1];
  }
  return first === null ? null : [first, last];
}

// nice returns 1, 2 or 5 times a power of ten, at least n.
function nice(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return power * [1, 2, 5, 10].find(factor => factor * power >= n * 0.9999);
}

// ticks returns the labels of an axis from one number to another, at most so many.
function ticks(from, to, count) {
  const step = nice((to - from) / count), list = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) list.push(at);
  return list;
}
