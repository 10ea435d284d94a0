// /openapi.json as a page.
"use strict";

function made(kind, text, name) {
  const one = document.createElement(kind);
  if (text !== undefined) one.textContent = text;
  if (name) one.className = name;
  return one;
}

// A paragraph in which what stands between backticks is code.
function paragraphOf(text) {
  const one = made("p");
  one.append(...text.split("`").map((part, index) => (index % 2 ? made("code", part) : part)));
  return one;
}

function kindOf(schema) {
  return schema.type === "array" ? "list" : schema.type === "string" ? "text" : schema.type || "any";
}

function fieldsOf(schema) {
  const table = made("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const title of ["Field", "Type", "Meaning"]) {
    const cell = made("th", title);
    cell.scope = "col";
    head.append(cell);
  }
  for (const [name, field] of Object.entries(schema.properties)) {
    const row = body.insertRow();
    row.insertCell().append(made("code", name));
    row.insertCell().textContent = kindOf(field) + (schema.required.includes(name) ? ", required" : "");
    row.insertCell().textContent = field.description;
  }
  const scroll = made("div", undefined, "scroll");
  scroll.tabIndex = 0;
  scroll.append(table);
  return scroll;
}

function commandOf(path, method, schema) {
  // Braces would be escaped, and mean something else to curl.
  const place = path.replace(/{(\w+)}/g, (_, name) => name.toUpperCase());
  const address = new URL(`.${place}`, document.baseURI).href;
  const body = schema ? ` -d '${JSON.stringify(schema.example)}'` : "";
  return `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${address}${body}`;
}

function show(api) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const tag = (route.tags || ["Other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push({ path, method, route });
    }
  }
  const parts = [];
  for (const [tag, routes] of groups) {
    parts.push(made("h2", tag));
    for (const { path, method, route } of routes) {
      const title = made("h3"), content = route.requestBody && route.requestBody.content["application/json"];
      title.append(made("span", method.toUpperCase(), "method"), ` ${path}`);
      parts.push(title, paragraphOf(route.description || route.summary));
      if (content && Object.keys(content.schema.properties).length) parts.push(fieldsOf(content.schema));
      const command = made("pre");
      command.append(made("code", commandOf(path, method, content && content.schema)));
      parts.push(command);
    }
  }
  document.getElementById("routes").replaceChildren(...parts);
}

fetch("openapi.json").then((response) => response.json()).then(show).catch((error) => {
  const problem = document.getElementById("problem");
  problem.textContent = `The description of the API cannot be read: ${error.message}`;
  problem.hidden = false;
});
