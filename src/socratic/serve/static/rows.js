// The playground of a model of tables: a form of its columns, of which each may be unknown.

import { AnswerView, inWords } from "./answer.js";
import { ask, latest, settled } from "./api.js";
import { CompareView } from "./compare.js";
import { CurveView } from "./curve.js";
import { card, element, fresh, percent, short } from "./elements.js";

const N_STEPS = 40;
const MOST_REASONS = 100;
const UNKNOWN = "unknown";

export class RowPlay {
  constructor(model, { failed, speak }) {
    Object.assign(this, { model, speak });
    const columns = model.columns.filter((column) => column.left_out === null);
    this.fields = columns.map((column) => new Field(column, () => this.changed(column)));
    this.moved = this.fields.find((field) => field.column.range !== null)?.column ?? null;
    if (model.kind === "density") this.moved = null;  // there is nothing from 0 to 1
    this.answer = new AnswerView(model, "row");
    this.curve = new CurveView();
    this.compare = model.kind === "classifier" ? new CompareView(model, failed) : null;
    this.askNow = latest(() => this.askAnswer(), failed);
    this.askCurve = settled(latest(() => this.askSweep(), failed), 120);
  }

  start(parent) {
    const each = (act) => () => {
      this.fields.forEach(act);
      this.changed(this.moved);
    };
    const form = card(
      "The row",
      "form-card",
      element("p", { class: "quiet" }, "What is not known is marginalised, exactly."),
      element(
        "div",
        { class: "buttons" },
        element("button", { type: "button", onclick: each((field) => field.setTypical()) }, "All typical"),
        element("button", { type: "button", onclick: each((field) => field.setUnknown()) }, "All unknown"),
      ),
      element("div", { class: "fields" }, ...this.fields.map((field) => field.element)),
    );
    const left = element("div", { class: "stack" }, form);
    const right = element("div", { class: "stack" }, this.answer.card, this.moved === null ? null : this.curve.card);
    parent.replaceChildren(element("div", { class: "columns rows" }, left, right), this.compare?.card ?? "");
    this.changed(this.moved);
  }

  row(other = {}) {
    return { ...Object.fromEntries(this.fields.map((field) => [field.column.name, field.value])), ...other };
  }

  changed(column) {
    if (this.moved !== null && column?.range) this.moved = column;
    this.askNow();
    if (this.moved !== null) this.askCurve();
    this.compare?.ask({ rows: [this.row()] });
  }

  async askAnswer() {
    const explain = this.model.explains;
    const request = { model: this.model.name, watched: false, reasons: explain ? MOST_REASONS : 0 };
    const { answers: [answer], notes } = await ask("/v1/predict", { ...request, rows: [this.row()] });
    this.answer.show(answer, notes);
    this.speak(inWords(answer, "row").join(" "));
    if (!explain) return;
    const reasons = new Map(answer.reasons.map((reason) => [reason.name, reason]));
    this.fields.forEach((field) => field.explain(reasons.get(field.column.name)));
  }

  async askSweep() {
    const { name, range: [low, high] } = this.moved;
    const values = Array.from({ length: N_STEPS + 1 }, (_, step) => low + ((high - low) * step) / N_STEPS);
    const rows = values.map((value) => this.row({ [name]: value }));
    const { answers } = await ask("/v1/predict", { model: this.model.name, watched: false, rows });
    const now = this.fields.find((field) => field.column.name === name).value;
    this.curve.show({ name, unit: "", values, answers, now: now === null ? null : Math.min(high, Math.max(low, now)) });
  }
}

/** A column: a number with a slider, or a choice; a box says that it is unknown; a line says what speaks against it. */
class Field {
  constructor(column, changed) {
    Object.assign(this, { column, changed });
    const id = fresh("field");
    this.inputs = column.categories === null ? this.numbers(id) : [this.choice(id)];
    this.unknown = element("input", { type: "checkbox", id: `${id}-unknown`, onchange: () => this.toggle() });
    this.reason = element("p", { class: "reason quiet" });
    this.element = element(
      "div",
      { class: "field", role: "group", "aria-labelledby": `${id}-name` },
      element("label", { for: id, id: `${id}-name`, class: "field-name" }, column.name),
      element("label", { class: "field-unknown" }, this.unknown, UNKNOWN),
      element("div", { class: "field-inputs" }, ...this.inputs),
      this.reason,
    );
    this.setTypical();
  }

  numbers(id) {
    const number = element("input", { id, type: "number", step: "any", oninput: () => this.take(number.value) });
    if (this.column.range === null) return [number];
    const [low, high] = this.column.range;
    const slider = element("input", {
      type: "range",
      min: low,
      max: high,
      step: (high - low) / 200,
      "aria-label": `${this.column.name}, as a slider`,
      oninput: () => this.take(short(Number(slider.value), 4)),
    });
    return [number, slider];
  }

  choice(id) {
    const choose = () => this.take(this.column.categories[select.value]);
    const options = this.column.categories.map((value, place) => element("option", { value: place }, String(value)));
    const select = element("select", { id, onchange: choose }, ...options);
    return select;
  }

  /** Take what was chosen or typed; a number that is none is unknown. */
  take(value) {
    const number = value === "" ? NaN : Number(value);
    if (this.column.categories !== null) this.set(value);
    else this.set(Number.isFinite(number) ? number : null, value);
    this.changed();
  }

  set(value, typed = undefined) {
    this.value = value;
    this.unknown.checked = value === null;
    this.element.classList.toggle("is-unknown", value === null);
    if (value === null) return;
    this.known = value;
    if (this.column.categories !== null) {
      this.inputs[0].value = this.column.categories.indexOf(value);
      return;
    }
    const [number, slider] = this.inputs;
    if (typed === undefined || document.activeElement !== number) number.value = short(value, 4);
    if (slider) slider.value = value;
  }

  setTypical() {
    const { typical, categories } = this.column;
    this.set(typical === null || categories !== null ? typical : Number(typical.toPrecision(4)));
  }

  setUnknown() {
    this.set(null);
  }

  toggle() {
    this.set(this.unknown.checked ? null : (this.known ?? this.column.categories?.[0] ?? 0));
    this.changed();
  }

  explain(reason) {
    const never = reason?.excess === null;
    const against = never || (reason?.excess > 0 && reason.p_value <= 0.1);
    this.element.classList.toggle("against", against);
    if (against) {
      const more = never ? "" : `, ${short(reason.excess, 2)} nats more than usual`;
      const share = percent(reason.p_value);
      this.reason.textContent = `▲ speaks against the row: as surprising in ${share} of familiar rows${more}`;
    } else {
      this.reason.textContent = reason === undefined ? "" : "as usual, given the others";
    }
  }
}
