// The reference: fetches the OpenAPI document, with the token if one is needed, and lists the columns of the models.

import { ask, setToken } from "./api.js";
import { element } from "./elements.js";

const byId = (id) => document.getElementById(id);

/** What a column may hold, in words. */
function held({ type, examples = [], description = "" }) {
  const some = examples.length ? `such as ${examples.join(", ")}` : "";
  return [type.join(" or "), some, description].filter((part) => part).join("; ");
}

/** A heading and a table of the columns of a model. */
function columns({ title, properties }) {
  const rows = Object.entries(properties).map(([name, column]) =>
    element("tr", {}, element("td", {}, element("code", {}, name)), element("td", {}, held(column))),
  );
  return [element("h2", {}, title), element("table", {}, element("tbody", {}, ...rows))];
}

function show(openapi) {
  const row = openapi.components.schemas.Row;
  const schemas = (row.anyOf ?? [row]).filter((schema) => schema.properties);
  byId("rows").replaceChildren(...schemas.flatMap(columns));
  // Followed as it is, the link would ask without the token.
  const file = new Blob([JSON.stringify(openapi, null, 2)], { type: "application/json" });
  byId("openapi").href = URL.createObjectURL(file);
  byId("openapi").download = "openapi.json";
}

async function start() {
  try {
    show(await ask("/openapi.json"));
    byId("token").hidden = true;
    byId("trouble").textContent = "";
  } catch (error) {
    const isAsked = !byId("token").hidden;
    byId("token").hidden = error.status !== 401;
    byId("trouble").textContent = error.status !== 401 ? error.message : isAsked ? "This is not the token of the server." : "";
  }
}

byId("token").onsubmit = (event) => {
  event.preventDefault();
  setToken(byId("secret").value);
  start();
};

start();
