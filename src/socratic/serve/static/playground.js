// The front page: chooses a model and shows its playground.

import { ask, setToken } from "./api.js";
import { element } from "./elements.js";
import { ImagePlay } from "./images.js";
import { RowPlay } from "./rows.js";

const place = (id) => document.getElementById(id);
const trouble = place("trouble");
let spoken = null;
let chosen = 0;

function failed(error) {
  trouble.textContent = error.message;
}

/** Say what the model does: at the foot of a small screen, and to those who do not see it once it has settled. */
function speak(words) {
  trouble.textContent = "";
  place("below").textContent = words;
  clearTimeout(spoken);
  spoken = setTimeout(() => {
    place("spoken").textContent = words;
  }, 500);
}

/** Show the playground of a model, unless another one was chosen meanwhile. */
async function show(name) {
  chosen += 1;
  const mine = chosen;
  const unlessLeft = (act) => (given) => {
    if (mine === chosen) act(given);
  };
  const named = `model=${encodeURIComponent(name)}`;
  const [model, { examples }] = await Promise.all([ask(`/v1/model?${named}`), ask(`/v1/examples?${named}`)]);
  if (mine !== chosen) return;
  const { kind, columns, image_shape: shape } = model;
  const what = columns === null ? `images of ${shape.join(" × ")}` : `rows of ${columns.length} columns`;
  place("about").textContent = `${kind} of ${what}`;
  const page = { failed: unlessLeft(failed), speak: unlessLeft(speak) };
  const play = model.takes === "images" ? new ImagePlay(model, page, examples) : new RowPlay(model, page);
  play.start(place("play"));
}

async function open() {
  const { models } = await ask("/v1/models");
  place("token").hidden = true;
  place("chooser").hidden = false;
  place("model").replaceChildren(...models.map((name) => element("option", { value: name }, name)));
  place("model").onchange = (event) => show(event.target.value).catch(failed);
  await show(models[0]);
}

async function start() {
  try {
    await open();
  } catch (error) {
    if (error.status === 401) place("token").hidden = false;
    else failed(error);
  }
}

place("token").onsubmit = (event) => {
  event.preventDefault();
  setToken(place("secret").value);
  start().then(() => {
    if (!place("token").hidden) failed(new Error("This is not the token of the server."));
  });
};

start();
