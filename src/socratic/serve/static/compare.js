// Ways to doubt, side by side.

import { ask, latest, settled } from "./api.js";
import { aside, card, element, percent, short, withDeviation } from "./elements.js";

const HEADINGS = ["way to ask", "answer", "probability", "entropy", "own doubt", "time"];

export class CompareView {
  constructor(model, failed) {
    this.model = model;
    this.body = element("tbody");
    const moved = () => this.ask(this.asked);
    const range = { min: 0, max: 0.5, step: 0.05, value: 0.2 };
    this.rate = element("input", { id: "dropout", type: "range", ...range, oninput: moved });
    this.rateShown = element("output", { for: "dropout" });
    const headings = HEADINGS.map((name) => element("th", { scope: "col" }, name));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...headings)), this.body);
    this.card = card(
      "Five ways to doubt, side by side",
      "compare",
      aside(
        "The same circuit, asked in five ways. Dropout needs a rate; doubt from data does not: it is as large as the ",
        "training rows left it.",
      ),
      element("p", { class: "knob" }, element("label", { for: "dropout" }, "Dropout rate"), this.rate, this.rateShown),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Five ways to doubt" }, table),
    );
    const run = latest((asked) => this.run(asked), failed);
    this.later = settled(run, 300);
  }

  /** Ask about a row or a picture; null is nothing to ask about. */
  ask(asked) {
    this.asked = asked;
    this.rateShown.textContent = percent(Number(this.rate.value), 0);
    this.later(asked);
  }

  async run(asked) {
    if (asked === null) {
      this.body.replaceChildren();
      return;
    }
    const { ways } = await ask("/v1/compare", { model: this.model.name, ...asked, dropout: Number(this.rate.value) });
    const slowest = Math.max(...ways.map((way) => way.milliseconds ?? 0));
    this.body.replaceChildren(...ways.map((way) => row(way, slowest)));
  }
}

function row(way, slowest) {
  const name = element("th", { scope: "row" }, way.name);
  if (way.probabilities === null) {
    return element("tr", {}, name, element("td", { colspan: HEADINGS.length - 1, class: "quiet" }, way.note));
  }
  const best = way.probabilities.reduce((one, other) => (other.probability > one.probability ? other : one));
  const cost = element("span", { class: "cost" });
  cost.style.width = `${Math.max(1, (100 * way.milliseconds) / slowest)}%`;
  return element(
    "tr",
    {},
    name,
    element("td", {}, String(best.label)),
    element("td", {}, ...withDeviation(best.probability, best.std)),
    element("td", {}, short(way.entropy, 2)),
    element("td", {}, short(way.mutual_information, 2)),
    element("td", { class: "time" }, `${short(way.milliseconds, 2)} ms`, cost),
  );
}
