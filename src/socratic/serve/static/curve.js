// What the model says over the whole range of a control: the probability of its answer, and how familiar it is.

import { card, drawn, element, short } from "./elements.js";

const HEIGHT = 220;
const EDGE = { left: 40, right: 12, top: 14, bottom: 46 };
const MOST_LABELS = 12;

export class CurveView {
  constructor() {
    this.title = element("p", { class: "quiet" });
    this.holder = element("div", { class: "curve" });
    this.legend = element(
      "ul",
      { class: "legend", "aria-hidden": "true" },
      element("li", { class: "key-probability" }, "probability of the answer ± deviation"),
      element("li", { class: "key-familiar" }, "p-value"),
      element("li", { class: "key-refused" }, "refused"),
    );
    this.card = card("Over the whole range", "curve-card", this.title, this.holder, this.legend);
  }

  /** @param {{name: string, unit: string, values: number[], answers: object[], now: number | null}} sweep */
  show(sweep) {
    const { name, unit, values, answers, now } = sweep;
    const width = Math.max(280, this.holder.clientWidth);
    const [first, last] = [values[0], values[values.length - 1]];
    const x = (value) => EDGE.left + ((value - first) / (last - first)) * (width - EDGE.left - EDGE.right);
    const y = (share) => EDGE.top + (1 - share) * (HEIGHT - EDGE.top - EDGE.bottom);
    this.title.textContent = `${name}, from ${short(first)}${unit} to ${short(last)}${unit}, all else as it is.`;
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": spoken(sweep) });
    svg.append(hatching(), ...refused(values, answers, x, y), ...axes(values, unit, x, y));
    const sure = answers.map((answer) => [answer.probability, answer.std ?? 0]);
    if (sure.every(([probability]) => probability !== null)) {
      const upper = sure.map(([mean, std], place) => [x(values[place]), y(Math.min(1, mean + std))]);
      const lower = sure.map(([mean, std], place) => [x(values[place]), y(Math.max(0, mean - std))]);
      svg.append(drawn("path", { class: "band", d: `${path(upper)} L${lower.reverse().map(pair).join("L")} Z` }));
      svg.append(drawn("path", { class: "line-probability", d: path(sure.map(([mean], place) => [x(values[place]), y(mean)])) }));
    }
    const known = answers.map((answer, place) => [answer.p_value, values[place]]).filter(([p]) => p !== null);
    if (known.length > 1) svg.append(drawn("path", { class: "line-familiar", d: path(known.map(([p, value]) => [x(value), y(p)])) }));
    if (now !== null) svg.append(drawn("line", { class: "now", x1: x(now), x2: x(now), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }));
    svg.append(...labels(values, answers, x));
    this.holder.replaceChildren(svg);
  }
}

const pair = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const path = (points) => `M${points.map(pair).join("L")}`;

function hatching() {
  const pattern = drawn("pattern", { id: "refused", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(drawn("line", { class: "hatch", x1: 0, x2: 0, y1: 0, y2: 7 }));
  return drawn("defs", {}, pattern);
}

/** Hatched parts of the range in which the model refuses. */
function refused(values, answers, x, y) {
  const half = (values[1] - values[0]) / 2;
  return answers.flatMap((answer, place) => {
    if (answer.verdict !== "unfamiliar") return [];
    const [from, to] = [Math.max(values[0], values[place] - half), Math.min(values[values.length - 1], values[place] + half)];
    return [drawn("rect", { x: x(from), width: x(to) - x(from), y: y(1), height: y(0) - y(1), fill: "url(#refused)" })];
  });
}

function axes(values, unit, x, y) {
  const lines = [0, 0.5, 1].flatMap((share) => [
    drawn("line", { class: "axis", x1: x(values[0]), x2: x(values[values.length - 1]), y1: y(share), y2: y(share) }),
    drawn("text", { x: EDGE.left - 8, y: y(share) + 4, "text-anchor": "end" }, String(share)),
  ]);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => values[0] + share * (values[values.length - 1] - values[0]));
  const anchors = ["start", "middle", "middle", "middle", "end"];
  return [...lines, ...ticks.map((value, place) => drawn("text", { x: x(value), y: HEIGHT - 6, "text-anchor": anchors[place] }, `${short(value)}${unit}`))];
}

/** What the model answers, below the curve. */
function labels(values, answers, x) {
  const every = Math.ceil(values.length / MOST_LABELS);
  return answers.flatMap((answer, place) => {
    if (answer.label === null || place % every || String(answer.label).length > 2) return [];
    return [drawn("text", { class: "answered", x: x(values[place]), y: HEIGHT - 26, "text-anchor": "middle" }, answer.verdict === "unfamiliar" ? "✕" : String(answer.label))];
  });
}

/** The curve in words, for those who do not see it. */
function spoken({ name, unit, values, answers }) {
  const runs = [];
  answers.forEach((answer, place) => {
    const said = answer.verdict === "unfamiliar" ? "refused" : String(answer.label ?? answer.verdict ?? "not judged");
    const run = runs[runs.length - 1];
    if (run?.said === said) run.to = values[place];
    else runs.push({ said, from: values[place], to: values[place] });
  });
  return `${name}: ${runs.map(({ said, from, to }) => `${said} from ${short(from)}${unit} to ${short(to)}${unit}`).join(", ")}`;
}
