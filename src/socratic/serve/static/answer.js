// What a model says: a verdict, bars of the class probabilities, gauges of familiarity and ambiguity.

import { card, element, percent, short } from "./elements.js";

const MOST_BARS = 12;
const LEAST_P = 0.001;
const SIGNS = { familiar: "✓", ambiguous: "≈", unfamiliar: "✕" };

/** The verdict in a few words, and a second thought where there is one. */
export function inWords(answer, noun) {
  if (answer.verdict === "unfamiliar") {
    return [`I don't know this ${noun}.`, answer.label === null ? "" : `It looks most like ${answer.label}.`];
  }
  if (answer.verdict === "ambiguous") return [`It may be ${answer.label}.`, "I am not sure enough to answer."];
  if (answer.label !== null) return [`It is ${answer.label}.`, ""];
  return [answer.verdict === null ? "This is how likely it is." : `I know such ${noun}s.`, ""];
}

function meter(label, share, text, settings = {}) {
  const bar = element("div", { class: "gauge-bar" });
  const filled = element("span", { class: "gauge-fill" });
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  bar.append(filled);
  for (const [className, place, title] of settings.marks ?? []) {
    const mark = element("span", { class: className, title });
    mark.style.left = `${100 * place}%`;
    bar.append(mark);
  }
  if (settings.part !== undefined) {
    const part = element("span", { class: "gauge-part" });
    part.style.width = `${100 * Math.min(1, settings.part)}%`;
    bar.append(part);
  }
  return element(
    "div",
    { class: "gauge" },
    element("h3", {}, label),
    element(
      "div",
      { role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": share.toFixed(3), "aria-valuetext": text },
      bar,
    ),
    element("p", { class: "quiet" }, text),
  );
}

/** Where a p-value stands on a gauge: what matters are small ones. */
export function onLogScale(p) {
  return 1 - Math.log(Math.max(p, LEAST_P)) / Math.log(LEAST_P);
}

function familiarity(answer, rate, noun) {
  if (answer.p_value === null) return null;
  const text = `p = ${short(answer.p_value, 2)}: ${percent(answer.p_value, answer.p_value < 0.01 ? 2 : 0)} of familiar ${noun}s are at least as unusual`;
  const marks = rate === null ? [] : [["gauge-mark", onLogScale(rate), `refused at ${rate} and below`]];
  return meter("Familiarity", onLogScale(answer.p_value), text, { marks });
}

function ambiguity(answer) {
  if (answer.entropy === null || answer.probabilities === null) return null;
  const most = Math.log(answer.probabilities.length);
  const own = answer.mutual_information ?? 0;
  const text = `${short(answer.entropy, 2)} of ${short(most, 3)} nats, ${short(own, 2)} of them the model's own doubt`;
  return meter("Ambiguity", answer.entropy / most, text, { part: own / most });
}

function bar({ label, probability: share, std: deviation }, best) {
  const [probability, std] = [share ?? 0, deviation ?? 0];
  const track = element("span", { class: "bar-track" });
  const filled = element("span", { class: "bar-fill" });
  filled.style.width = percent(probability).replace(" ", "");
  const whisker = element("span", { class: "bar-whisker" });
  const [low, high] = [Math.max(0, probability - std), Math.min(1, probability + std)];
  whisker.style.left = `${100 * low}%`;
  whisker.style.width = `${100 * (high - low)}%`;
  track.append(filled, whisker);
  return element(
    "li",
    { class: best ? "bar best" : "bar" },
    element("span", { class: "bar-label" }, String(label)),
    track,
    element("span", { class: "bar-number" }, percent(probability), element("small", {}, ` ± ${(100 * std).toFixed(1)}`)),
  );
}

function bars(probabilities) {
  const shown =
    probabilities.length <= MOST_BARS
      ? probabilities
      : [...probabilities].sort((one, other) => other.probability - one.probability).slice(0, MOST_BARS);
  const best = Math.max(...probabilities.map((each) => each.probability));
  return element("ul", { class: "bars", "aria-label": "Class probabilities and their standard deviations" }, ...shown.map((each) => bar(each, each.probability === best)));
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
    const verdict = answer.verdict ?? "unjudged";
    const [words, thought] = inWords(answer, noun);
    const missing = answer.p_value === null && model.calibrated !== null && model.takes === "images";
    const parts = [
      element(
        "p",
        { class: `verdict ${verdict}` },
        element("span", { class: "verdict-words" }, words, element("span", { class: "thought" }, thought)),
        answer.verdict === null ? null : element("span", { class: "pill" }, element("span", { "aria-hidden": "true" }, `${SIGNS[answer.verdict]} `), answer.verdict),
      ),
      answer.probabilities === null ? null : bars(answer.probabilities),
      element("div", { class: "gauges" }, ...[familiarity(answer, model.rejection_rate, noun), ambiguity(answer)].filter((each) => each !== null)),
      answer.probabilities === null ? element("p", { class: "quiet" }, `log p(x) = ${short(answer.log_likelihood, 4)}`) : null,
      missing ? element("p", { class: "quiet" }, `Missing pixels are marginalised, exactly. How familiar such a ${noun} is, is not known: the model compares with whole ones.`) : null,
      ...notes.map((note) => element("p", { class: "quiet" }, note)),
    ];
    this.body.replaceChildren(...parts.filter((part) => part !== null));
  }
}
