// The playground of a model of images.

import { AnswerView, EMPTY, inWords } from "./answer.js";
import { ask, latest, settled } from "./api.js";
import { CompareView } from "./compare.js";
import { CurveView } from "./curve.js";
import { Drawing, paint, paintHeat } from "./drawing.js";
import { card, element, short } from "./elements.js";
import { blank, blurred, copied, covered, fromFile, fromLists, inverted } from "./picture.js";
import { isEmpty, noisy, toLists, turned } from "./picture.js";

const MOST_VALUES = 600_000;
const N_REASONS = 3;

/** What may be done to a picture, in this order: each over a range, by a function of the picture and a value in it. */
function knobsOf([height, width]) {
  const blur = Math.max(1.5, Math.min(height, width) / 8);
  return {
    turn: { name: "Turn", unit: "°", most: 180, step: 1, apply: turned },
    blur: { name: "Blur", unit: " px", most: blur, step: blur / 30, apply: blurred },
    noise: { name: "Noise", unit: " %", most: 60, step: 1, apply: (picture, value) => noisy(picture, value / 100) },
    cover: { name: "Cover", unit: " %", most: 100, step: 1, apply: (picture, value) => covered(picture, value / 100) },
  };
}

export class ImagePlay {
  constructor(model, { failed, speak }, examples) {
    Object.assign(this, { model, speak, failed, examples });
    const classifies = model.kind === "classifier";
    this.knobs = knobsOf(model.image_shape);
    this.pens = [["draw", "Draw"], ["wipe", "Wipe"], ["cover", "Cover"]];
    if (!classifies) {  // densities are of whole images
      delete this.knobs.cover;
      this.pens.pop();
    }
    this.values = Object.fromEntries(Object.keys(this.knobs).map((key) => [key, 0]));
    this.moved = "turn";
    this.base = blank(model.image_shape);
    this.drawing = new Drawing(() => this.bake(), () => this.changed());
    this.answer = new AnswerView(model, "picture");
    this.curve = classifies ? new CurveView() : null;
    this.compare = classifies ? new CompareView(model, failed) : null;
    const heatLabel = "Heat map of what speaks against the picture";
    this.heat = element("canvas", { class: "picture", role: "img", "aria-label": heatLabel });
    this.reasons = element("ol", { class: "reasons" });
    this.askNow = latest(() => this.askAnswer(), failed);
    this.askCurve = settled(latest(() => this.askSweep(), failed), 120);
  }

  start(parent) {
    const reasons = this.model.explains ? this.reasonsCard() : null;
    const left = element("div", { class: "stack" }, this.pictureCard());
    const right = element("div", { class: "stack" }, this.answer.card, this.curve?.card, reasons);
    parent.replaceChildren(element("div", { class: "columns" }, left, right), this.compare?.card ?? "");
    this.take(fromLists(this.examples[3].pixels, this.model.image_shape));
  }

  pictureCard() {
    const upload = (event) => this.upload(event);
    const file = element("input", { id: "file", type: "file", accept: "image/*", class: "unseen", onchange: upload });
    const pens = this.pens.map(([pen, name]) => {
      const choose = () => {
        this.drawing.pen = pen;
      };
      const checked = pen === this.drawing.pen;
      const radio = element("input", { type: "radio", name: "pen", value: pen, checked, onchange: choose });
      return element("label", {}, radio, element("span", {}, name));
    });
    const examples = this.examples.map((example) => this.example(example));
    return card(
      "The picture",
      "picture-card",
      this.drawing.canvas,
      element("fieldset", { class: "pens" }, element("legend", {}, "Pen"), ...pens),
      element(
        "div",
        { class: "buttons" },
        element("button", { type: "button", onclick: () => this.take(blank(this.model.image_shape)) }, "Empty"),
        element("button", { type: "button", onclick: () => this.take(inverted(this.base)) }, "Invert"),
        file,
        element("label", { for: "file", class: "button" }, "Upload…"),
      ),
      element("div", { class: "knobs" }, ...Object.keys(this.knobs).map((key) => this.knob(key))),
      element("h3", { id: "examples" }, "Examples"),
      element("ul", { class: "examples", "aria-labelledby": "examples" }, ...examples),
    );
  }

  reasonsCard() {
    return card(
      "What speaks against it",
      "reasons-card",
      element("div", { class: "reasons-body" }, this.heat, element("div", {}, this.reasons)),
    );
  }

  knob(key) {
    const { name, most, step } = this.knobs[key];
    const id = `knob-${key}`;
    const moved = (event) => {
      this.values[key] = Number(event.target.value);
      this.moved = key;
      this.changed();
    };
    const slider = element("input", { id, type: "range", min: 0, max: most, step, value: 0, oninput: moved });
    const shown = element("output", { for: id });
    Object.assign(this.knobs[key], { slider, shown });
    return element("p", { class: "knob" }, element("label", { for: id }, name), slider, shown);
  }

  example({ name, pixels }) {
    const picture = fromLists(pixels, this.model.image_shape);
    const canvas = element("canvas", { "aria-hidden": "true" });
    paint(canvas, picture);
    const settings = { type: "button", "aria-label": `Show ${name}`, title: name };
    return element("li", {}, element("button", { ...settings, onclick: () => this.take(copied(picture)) }, canvas));
  }

  async upload(event) {
    const [file] = event.target.files;
    if (!file) return;
    try {
      this.take(await fromFile(file, this.model.image_shape));
    } catch {
      this.failed(new Error(`${file.name} is no picture that this browser can read.`));
    }
    event.target.value = "";
  }

  /** Begin with another picture; how far it is turned stays. */
  take(picture) {
    this.base = picture;
    this.changed();
  }

  /** The picture as it is seen becomes the one to draw on. */
  bake() {
    if (Object.values(this.values).some((value) => value !== 0)) {
      this.base = copied(this.seen());
      Object.keys(this.values).forEach((key) => {
        this.values[key] = 0;
        this.knobs[key].slider.value = 0;
      });
    }
    return this.base;
  }

  /** The picture with all that is done to it; one value may be another. */
  seen(other = {}) {
    const values = { ...this.values, ...other };
    return Object.entries(this.knobs).reduce((picture, [key, knob]) => knob.apply(picture, values[key]), this.base);
  }

  changed() {
    for (const [key, { shown, unit }] of Object.entries(this.knobs)) {
      shown.textContent = `${short(this.values[key], 2)}${unit}`;
    }
    const picture = this.seen();
    this.drawing.show(picture);
    this.askNow();
    if (this.curve !== null) this.askCurve();
    this.compare?.ask(isEmpty(picture) ? null : { pixels: toLists(picture) });
  }

  async askAnswer() {
    const picture = this.seen();
    const explain = this.model.explains;
    if (isEmpty(picture)) {
      this.answer.showEmpty();
      this.speak(EMPTY.join(" "));
      paint(this.heat, picture);
      this.reasons.replaceChildren();
      return;
    }
    const request = { model: this.model.name, watched: false, reasons: explain ? N_REASONS : 0, heat: explain };
    const { answers: [answer], notes } = await ask("/v1/predict", { ...request, pixels: toLists(picture) });
    this.answer.show(answer, notes);
    this.speak(inWords(answer, "picture").join(" "));
    if (explain) this.explain(picture, answer);
  }

  explain(picture, { heat, reasons }) {
    if (heat === null) paint(this.heat, picture);
    else paintHeat(this.heat, picture, heat);
    const against = (reasons ?? []).filter((reason) => reason.excess > 0);
    const nothing = reasons === null ? "Not known while pixels are missing." : "Nothing: every part is as usual.";
    this.reasons.replaceChildren(
      ...against.map(({ name, excess, p_value: p }) => {
        const words = ` ${short(excess, 2)} nats more surprising than usual, p = ${short(p, 2)}`;
        return element("li", {}, element("strong", {}, name), element("span", { class: "quiet" }, words));
      }),
      against.length ? "" : element("li", { class: "quiet" }, nothing),
    );
  }

  async askSweep() {
    if (isEmpty(this.base)) {
      this.curve.clear();
      return;
    }
    const key = this.moved;
    const { name, unit, most } = this.knobs[key];
    const size = this.base.values.length;
    const steps = Math.max(6, Math.min(30, Math.floor(MOST_VALUES / size)));
    const values = Array.from({ length: steps + 1 }, (_, step) => (most * step) / steps);
    const images = values.map((value) => toLists(this.seen({ [key]: value })));
    const { answers } = await ask("/v1/predict", { model: this.model.name, watched: false, images });
    this.curve.show({ name, unit, values, answers, now: this.values[key] });
  }
}
