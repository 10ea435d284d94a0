// Prometheus' text to figures. Each line is NAME{label="value",...} NUMBER.
"use strict";

const PREFIX = "ms_ascend_ops_serving_";

function readMetrics(text) {
  const rows = [];
  for (const line of text.split("\n")) {
    const parts = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!parts) continue;
    const labels = {};
    for (const [, name, value] of (parts[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, (_, one) => (one === "n" ? "\n" : one));
    }
    rows.push({ name: parts[1], labels, value: parts[3] === "+Inf" ? Infinity : Number(parts[3]) });
  }
  return rows;
}

function matching(rows, name, labels = {}) {
  return rows.filter((row) => row.name === name && Object.entries(labels).every(([key, value]) => row.labels[key] === value));
}

function sum(rows, name, labels = {}) {
  return matching(rows, name, labels).reduce((total, row) => total + row.value, 0);
}

// The bound of the bucket that a share of the values is in, in seconds; null: there are none.
function quantile(rows, name, share, keep) {
  const counts = new Map();
  for (const row of matching(rows, `${name}_bucket`)) {
    if (!keep(row.labels)) continue;
    const bound = row.labels.le === "+Inf" ? Infinity : Number(row.labels.le);
    counts.set(bound, (counts.get(bound) || 0) + row.value);
  }
  const bounds = [...counts.keys()].sort((a, b) => a - b);
  const all = counts.get(Infinity) || 0;
  return all ? bounds.find((bound) => counts.get(bound) >= share * all) : null;
}

function seconds(value) {
  if (value === null || value === undefined) return "none yet";
  if (value === Infinity) return "> 5 min";
  return value < 1 ? `≤ ${Math.round(value * 1000)} ms` : `≤ ${value} s`;
}

// Requests that people and probes make to look at the server are not counted as work.
function isWork(labels) {
  return /infer$|Infer$|completions$|embeddings$/.test(labels.operation || "");
}

function figuresOf(rows) {
  const answers = matching(rows, `${PREFIX}requests_total`).filter((row) => isWork(row.labels));
  const total = answers.reduce((count, row) => count + row.value, 0);
  const failed = answers.filter((row) => !/^(2..|OK)$/.test(row.labels.status)).reduce((count, row) => count + row.value, 0);
  const memory = sum(rows, "process_resident_memory_bytes");
  return [
    ["Requests", total],
    ["Errors", failed],
    ["Waiting", sum(rows, `${PREFIX}queue_length`)],
    ["Running sequences", sum(rows, `${PREFIX}running_sequences`)],
    ["Latency, half", seconds(quantile(rows, `${PREFIX}request_seconds`, 0.5, isWork))],
    ["Latency, 99 %", seconds(quantile(rows, `${PREFIX}request_seconds`, 0.99, isWork))],
    ["Tokens generated", sum(rows, `${PREFIX}tokens_total`, { kind: "generated" })],
    ["Memory", memory ? `${Math.round(memory / 2 ** 20)} MiB` : "unknown"],
  ];
}
