// What a model says: a verdict, bars of the class probabilities, gauges of familiarity and ambiguity.

import { aside, card, element, percent, short, withDeviation } from "./elements.js";

const MOST_BARS = 12;
const LEAST_P = 0.001;
const MISSES_PIXELS =
  "Missing pixels are marginalised, exactly. How familiar the rest is, is not known: the model knows whole pictures.";
const SIGNS = { familiar: "✓", ambiguous: "≈", unfamiliar: "✕" };

/** What is said of an empty picture instead of an answer: it is no question. */
export const EMPTY = ["The picture is empty.", "Draw something, or choose an example."];

/** The verdict in a few words, and a second thought where there is one. */
export function inWords(answer, noun) {
  if (answer.verdict === "unfamiliar") {
    return [`I don't know this ${noun}.`, answer.label === null ? "" : `It looks most like ${answer.label}.`];
  }
  if (answer.verdict === "ambiguous") return [`It may be ${answer.label}.`, "I am not sure enough to answer."];
  if (answer.label !== null) return [`It is ${answer.label}.`, ""];
  return [answer.verdict === null ? "This is how likely it is." : `I know such ${noun}s.`, ""];
}

/** Something that lies along a bar, from a share of it to another. */
function along(className, from, to) {
  const part = element("span", { class: className });
  part.style.left = `${100 * from}%`;
  part.style.width = `${100 * (to - from)}%`;
  return part;
}

/** A gauge from 0 to 1, with a hatched part of what it shows, or a mark at a limit. */
function gauge(label, share, text, { part = null, limit = null }) {
  const bar = element(
    "div",
    {
      class: "gauge-bar",
      role: "meter",
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": 1,
      "aria-valuenow": share.toFixed(3),
      "aria-valuetext": text,
    },
    along("gauge-fill", 0, Math.min(1, Math.max(0, share))),
    part === null ? null : along("gauge-part", 0, Math.min(1, part)),
    limit === null ? null : along("gauge-mark", limit, limit),
  );
  return element("div", { class: "gauge" }, element("h3", {}, label), bar, aside(text));
}

/** Where a p-value stands on a gauge: what matters are small ones. */
export function onLogScale(p) {
  return 1 - Math.log(Math.max(p, LEAST_P)) / Math.log(LEAST_P);
}

function familiarity(answer, rate, noun) {
  if (answer.p_value === null) return null;
  const p = answer.p_value;
  const share = percent(p, p < 0.01 ? 2 : 0);
  const text = `p = ${short(p, 2)}: ${share} of familiar ${noun}s are at least as unusual`;
  return gauge("Familiarity", onLogScale(p), text, { limit: rate === null ? null : onLogScale(rate) });
}

function ambiguity(answer) {
  if (answer.entropy === null || answer.probabilities === null) return null;
  const most = Math.log(answer.probabilities.length);
  const own = answer.mutual_information ?? 0;
  const text = `${short(answer.entropy, 2)} of ${short(most, 3)} nats, ${short(own, 2)} of them the model's own doubt`;
  return gauge("Ambiguity", answer.entropy / most, text, { part: own / most });
}

function bar({ label, probability, std }, best) {
  const [low, high] = [Math.max(0, probability - std), Math.min(1, probability + std)];
  return element(
    "li",
    { class: best ? "bar best" : "bar" },
    element("span", { class: "bar-label" }, String(label)),
    element(
      "span",
      { class: "bar-track" },
      along("bar-fill", 0, probability),
      along("bar-whisker", low, high),
    ),
    element("span", { class: "bar-number" }, ...withDeviation(probability, std)),
  );
}

function bars(probabilities) {
  const shown =
    probabilities.length <= MOST_BARS
      ? probabilities
      : [...probabilities].sort((one, other) => other.probability - one.probability).slice(0, MOST_BARS);
  const best = Math.max(...probabilities.map((each) => each.probability));
  return element(
    "ul",
    { class: "bars", "aria-label": "Class probabilities and their standard deviations" },
    ...shown.map((each) => bar(each, each.probability === best)),
  );
}

function said([words, thought], verdict) {
  const sign = element("span", { "aria-hidden": "true" }, `${SIGNS[verdict]} `);
  return element(
    "p",
    { class: `verdict ${verdict ?? ""}` },
    element("span", { class: "verdict-words" }, words, element("span", { class: "thought" }, thought)),
    verdict === null ? null : element("span", { class: "pill" }, sign, verdict),
  );
}

export class AnswerView {
  constructor(model, noun) {
    this.model = model;
    this.noun = noun;
    this.body = element("div");
    this.card = card("What the model says", "answer", this.body);
  }

  show(answer, notes) {
    const { noun, model } = this;
    const classified = answer.probabilities !== null;
    const missesPixels = classified && answer.p_value === null && model.takes === "images";
    const parts = [
      said(inWords(answer, noun), answer.verdict),
      classified ? bars(answer.probabilities) : null,
      element("div", { class: "gauges" }, familiarity(answer, model.rejection_rate, noun), ambiguity(answer)),
      classified ? null : aside(`log p(x) = ${short(answer.log_likelihood, 4)}`),
      missesPixels ? aside(MISSES_PIXELS) : null,
      ...notes.map((note) => aside(note)),
    ];
    this.body.replaceChildren(...parts.filter((part) => part !== null));
  }

  showEmpty() {
    this.body.replaceChildren(said(EMPTY, null));
  }
}
