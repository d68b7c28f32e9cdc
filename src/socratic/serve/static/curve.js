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

  clear() {
    this.title.textContent = "";
    this.holder.replaceChildren();
  }

  /** @param {{name: string, unit: string, values: number[], answers: object[], now: number | null}} sweep */
  show(sweep) {
    const { name, unit, values, answers, now } = sweep;
    const width = Math.max(280, this.holder.clientWidth);
    const [first, last] = [values[0], values[values.length - 1]];
    const x = (value) => EDGE.left + ((value - first) / (last - first)) * (width - EDGE.left - EDGE.right);
    const y = (share) => EDGE.top + (1 - share) * (HEIGHT - EDGE.top - EDGE.bottom);
    this.title.textContent = `${name}, from ${short(first)}${unit} to ${short(last)}${unit}, all else as it is.`;
    const size = { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT };
    this.holder.replaceChildren(
      drawn(
        "svg",
        { ...size, role: "img", "aria-label": spoken(sweep) },
        hatching(),
        ...refused(values, answers, x, y),
        ...axes(values, unit, x, y),
        ...sureness(values, answers, x, y),
        familiarity(values, answers, x, y),
        now === null ? null : drawn("line", { class: "now", x1: x(now), x2: x(now), y1: y(1), y2: y(0) }),
        ...labels(values, answers, x),
      ),
    );
  }
}

const pair = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const path = (points) => `M${points.map(pair).join("L")}`;

/** The probability of the answer, within its deviation; nothing for models without classes. */
function sureness(values, answers, x, y) {
  if (answers.some((answer) => answer.probability === null)) return [];
  const height = (share) => y(Math.min(1, Math.max(0, share)));
  const line = (level) => answers.map((answer, place) => [x(values[place]), height(level(answer))]);
  const upper = line(({ probability, std }) => probability + std);
  const lower = line(({ probability, std }) => probability - std).reverse();
  return [
    drawn("path", { class: "band", d: `${path([...upper, ...lower])}Z` }),
    drawn("path", { class: "line-probability", d: path(line(({ probability }) => probability)) }),
  ];
}

/** The p-value, where it is known. */
function familiarity(values, answers, x, y) {
  const points = answers.map((answer, place) => [x(values[place]), answer.p_value]).filter(([, p]) => p !== null);
  if (points.length < 2) return null;
  return drawn("path", { class: "line-familiar", d: path(points.map(([across, p]) => [across, y(p)])) });
}

function hatching() {
  const size = { width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const line = drawn("line", { class: "hatch", x1: 0, x2: 0, y1: 0, y2: 7 });
  return drawn("defs", {}, drawn("pattern", { id: "refused", ...size }, line));
}

/** Hatched parts of the range in which the model refuses. */
function refused(values, answers, x, y) {
  const half = (values[1] - values[0]) / 2;
  const within = (value) => Math.min(values[values.length - 1], Math.max(values[0], value));
  return answers.flatMap((answer, place) => {
    if (answer.verdict !== "unfamiliar") return [];
    const [from, to] = [values[place] - half, values[place] + half].map((value) => x(within(value)));
    return [drawn("rect", { x: from, width: to - from, y: y(1), height: y(0) - y(1), fill: "url(#refused)" })];
  });
}

function axes(values, unit, x, y) {
  const lines = [0, 0.5, 1].flatMap((share) => [
    drawn("line", { class: "axis", x1: x(values[0]), x2: x(values[values.length - 1]), y1: y(share), y2: y(share) }),
    drawn("text", { x: EDGE.left - 8, y: y(share) + 4, "text-anchor": "end" }, String(share)),
  ]);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => values[0] + share * (values[values.length - 1] - values[0]));
  const anchors = ["start", "middle", "middle", "middle", "end"];
  const scale = ticks.map((value, place) => {
    const where = { x: x(value), y: HEIGHT - 6, "text-anchor": anchors[place] };
    return drawn("text", where, `${short(value)}${unit}`);
  });
  return [...lines, ...scale];
}

/** What the model answers, below the curve. */
function labels(values, answers, x) {
  const every = Math.ceil(values.length / MOST_LABELS);
  return answers.flatMap((answer, place) => {
    if (answer.label === null || place % every || String(answer.label).length > 2) return [];
    const said = answer.verdict === "unfamiliar" ? "✕" : String(answer.label);
    return [drawn("text", { class: "answered", x: x(values[place]), y: HEIGHT - 26, "text-anchor": "middle" }, said)];
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
  const parts = runs.map(({ said, from, to }) => `${said} from ${short(from)}${unit} to ${short(to)}${unit}`);
  return `${name}: ${parts.join(", ")}`;
}
