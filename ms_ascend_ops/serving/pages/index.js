// The page of a server: its models, figures, a conversation.
"use strict";

const at = (id) => document.getElementById(id);
let key = "";
try { key = sessionStorage.getItem("key") || ""; } catch { /* the browser keeps nothing */ }

async function request(path, options = {}) {
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  if (response.status === 401) at("key-form").hidden = false;
  let said = "";
  try {
    const { error } = await response.json();
    said = typeof error === "string" ? error : error.message;
  } catch { /* it is no JSON */ }
  throw new Error(said || `the server says ${response.status}`);
}

const page = {
  said: at("said"), speed: at("speed"), model: at("model"), system: at("system"), temperature: at("temperature"),
  most: at("most"),
  busy(is) {
    at("send").disabled = is;
    at("stop").disabled = !is;
    if (!is) at("question").focus();
  },
};
const conversation = new Conversation(page, request);

function cell(row, text, isNumber) {
  const one = row.insertCell();
  one.textContent = text;
  if (isNumber) one.className = "number";
}

function showModels(index, language, rows) {
  const body = at("models").tBodies[0];
  body.replaceChildren();
  for (const model of index) {
    const row = body.insertRow();
    const labels = { model: model.name, version: model.version };
    cell(row, model.name);
    cell(row, model.version);
    cell(row, model.state === "READY" ? "ready" : `not loaded${model.reason && model.reason !== "unloaded" ? `: ${model.reason}` : ""}`);
    const isReady = model.state === "READY";
    cell(row, !isReady ? "" : language.has(`${model.name}:${model.version}`) ? "language model" : "network");
    cell(row, sum(rows, `${PREFIX}model_requests_total`, labels), true);
    cell(row, sum(rows, `${PREFIX}queue_length`, labels), true);
    cell(row, sum(rows, `${PREFIX}running_sequences`, labels), true);
  }
}

function showFigures(rows) {
  at("figures").replaceChildren(...figuresOf(rows).map(([name, value]) => {
    const pair = document.createElement("div"), title = document.createElement("dt"), number = document.createElement("dd");
    title.textContent = name;
    number.textContent = value;
    pair.append(title, number);
    return pair;
  }));
}

function showChoice(language) {
  const names = [...language];
  if (names.join("\n") !== [...page.model.options].map((option) => option.value).join("\n")) {
    const chosen = page.model.value;
    page.model.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(chosen)) page.model.value = chosen;
  }
  at("conversation").hidden = names.length === 0;
}

async function refresh() {
  const problem = at("problem");
  try {
    const [index, models, metrics] = await Promise.all([
      request("v2/repository/index", { method: "POST" }).then((one) => one.json()),
      request("v1/models").then((one) => one.json()),
      request("metrics").then((one) => one.text()),
    ]);
    const rows = readMetrics(metrics), language = new Set(models.data.map((one) => one.id));
    showFigures(rows);
    showModels(index, language, rows);
    showChoice(language);
    at("key-form").hidden = true;
    problem.hidden = true;
  } catch (error) {
    problem.textContent = error instanceof TypeError ? "The server does not answer." : error.message;
    problem.hidden = false;
  }
}

at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = at("key").value.trim();
  try { sessionStorage.setItem("key", key); } catch { /* for this page only, then */ }
  refresh();
});
function send() {
  const text = at("question").value.trim();
  if (!text || conversation.busy) return;
  at("question").value = "";
  conversation.ask(text).then(refresh);
}
at("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
at("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") conversation.stop(); });
at("stop").addEventListener("click", () => conversation.stop());
at("clear").addEventListener("click", () => { conversation.clear(); at("question").focus(); });

refresh();
setInterval(() => { if (!document.hidden) refresh(); }, 3000);
