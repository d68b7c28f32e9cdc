// The page: a drawing, what the model sees of it, and what it says.

import { AnswerView, EMPTY, inWords } from "./answer.js";
import { latest } from "./api.js";
import { Drawing, paint } from "./drawing.js";
import { card, element } from "./elements.js";
import { load } from "./model.js";
import { blank } from "./picture.js";
import { scaled } from "./scaling.js";

const PAPER = [32, 32, 1];
const EXAMPLES = [["digits", "3"], ["digits", "4"], ["digits", "7"], ["letters", "A"], ["letters", "K"], ["letters", "W"]];
const byId = (id) => document.getElementById(id);

/** A drawing that remembers its lines. */
class Sketch extends Drawing {
  lines = [];

  line(from, to) {
    this.lines.push([from, to]);
    super.line(from, to);
  }
}

class Live {
  constructor(model, strokes) {
    this.model = model;
    this.strokes = strokes;
    this.picture = blank(PAPER);
    this.sketch = new Sketch(() => this.picture, () => this.changed());
    this.small = element("canvas", { class: "picture", role: "img", "aria-label": "The drawing in 8 x 8 pixels" });
    this.view = new AnswerView({ rejection_rate: model.about.rejection_rate, calibrated: true, takes: "images" }, "picture");
    this.took = element("p", { class: "quiet" });
    this.askNow = latest(() => this.ask(), failed);
  }

  start(parent) {
    const examples = EXAMPLES.map(([kind, name]) =>
      element("button", { type: "button", "aria-label": `Draw ${name}`, onclick: () => this.draw(this.strokes[kind][name]) }, name),
    );
    const paper = card(
      "Draw here",
      "picture-card",
      this.sketch.canvas,
      element("div", { class: "buttons" }, element("button", { type: "button", class: "primary", onclick: () => this.clear() }, "Clear"), ...examples),
      element(
        "div",
        { class: "seen" },
        this.small,
        element("p", { class: "quiet" }, "What the model sees: the drawing, scaled down to 8 x 8 pixels and centred, as the 1,797 digits of scikit-learn are."),
      ),
    );
    this.view.card.append(this.took);
    parent.replaceChildren(element("div", { class: "columns" }, element("div", { class: "stack" }, paper), element("div", { class: "stack" }, this.view.card)));
    this.draw(this.strokes.digits[3]);
  }

  clear() {
    this.sketch.lines = [];
    this.picture = blank(PAPER);
    this.changed();
  }

  /** Draw some strokes, of points in the unit square. */
  draw(strokes) {
    this.clear();
    const place = ([x, y]) => ({ x: PAPER[1] * (0.2 + 0.6 * x), y: PAPER[0] * (0.1 + 0.8 * y) });
    for (const stroke of strokes) {
      stroke.slice(1).forEach((point, before) => this.sketch.line(place(stroke[before]), place(point)));
    }
  }

  changed() {
    this.sketch.show(this.picture);
    this.askNow();
  }

  async ask() {
    const bytes = scaled(this.sketch.lines);
    const seen = blank([8, 8, 1]);
    seen.values.set(bytes);
    paint(this.small, seen);
    if (!this.sketch.lines.length) {
      this.took.textContent = "";
      this.view.showEmpty();
      byId("spoken").textContent = EMPTY.join(" ");
      return;
    }
    const started = performance.now();
    const answer = await this.model.answer(bytes);
    this.took.textContent = `Answered in ${(performance.now() - started).toFixed(1)} ms, in this page.`;
    this.view.show(answer, []);
    byId("spoken").textContent = inWords(answer, "picture").join(" ");
  }
}

function failed(error) {
  byId("trouble").textContent = `The model does not run in this browser: ${error.message}`;
}

async function start() {
  try {
    const strokes = await fetch(new URL("strokes.json", import.meta.url)).then((reply) => reply.json());
    new Live(await load(), strokes).start(byId("live"));
  } catch (error) {
    failed(error);
  }
}

start();
