// A picture on the screen, to be drawn on by finger, mouse or keyboard, and the heat map of what speaks against it.

import { element } from "./elements.js";
import { penned } from "./picture.js";

const SIDE = 320;

/** Paint a picture on a canvas, its missing pixels hatched. */
export function paint(canvas, picture, fade = 1) {
  const { height, width, channels, values, hidden } = picture;
  const small = new OffscreenCanvas(width, height);
  const pixels = new ImageData(width, height);
  for (let place = 0; place < height * width; place += 1) {
    for (let c = 0; c < 3; c += 1) pixels.data[4 * place + c] = fade * values[place * channels + (c % channels)];
    pixels.data[4 * place + 3] = 255;
  }
  small.getContext("2d").putImageData(pixels, 0, 0);
  const scale = Math.max(1, Math.round(SIDE / Math.max(height, width)));
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  hidden.forEach((missing, place) => {
    if (missing) hatch(context, (place % width) * scale, Math.floor(place / width) * scale, scale);
  });
  return scale;
}

function hatch(context, left, top, side) {
  context.fillStyle = "#8a9299";
  context.fillRect(left, top, side, side);
  context.strokeStyle = "#dfe3e6";
  context.lineWidth = Math.max(1, side / 12);
  context.beginPath();
  context.moveTo(left, top + side);
  context.lineTo(left + side, top);
  context.stroke();
}

/** Paint what speaks against a picture (H, W), in nats, over it: the more, the more opaque. */
export function paintHeat(canvas, picture, heat) {
  const scale = paint(canvas, picture, 0.55);
  const context = canvas.getContext("2d");
  const most = Math.max(0.05, ...heat.flat());
  heat.forEach((row, y) =>
    row.forEach((excess, x) => {
      if (excess <= 0) return;
      context.fillStyle = `rgb(255 120 40 / ${(0.85 * excess) / most})`;
      context.fillRect(x * scale, y * scale, scale, scale);
    }),
  );
}

/** A canvas to draw on. `begin` gives the picture to draw on, `changed` is called when something was drawn. */
export class Drawing {
  constructor(begin, changed) {
    this.begin = begin;
    this.changed = changed;
    this.pen = "draw";
    this.last = null;
    this.cursor = null;
    this.canvas = element("canvas", {
      class: "picture",
      tabindex: 0,
      role: "application",
      "aria-label": "Picture. Arrow keys move the pen, space draws, Escape hides the pen.",
      onpointerdown: (event) => this.start(event),
      onpointermove: (event) => this.move(event),
      onpointerup: () => this.stop(),
      onpointercancel: () => this.stop(),
      onkeydown: (event) => this.key(event),
      onblur: () => this.hidePen(),
    });
  }

  show(picture) {
    this.picture = picture;
    const scale = paint(this.canvas, picture);
    if (this.cursor === null) return;
    const context = this.canvas.getContext("2d");
    context.lineWidth = 3;
    for (const [colour, dashes] of [["#000", []], ["#fff", [5, 5]]]) {
      context.strokeStyle = colour;
      context.setLineDash(dashes);
      context.strokeRect(this.cursor.x * scale + 2, this.cursor.y * scale + 2, scale - 4, scale - 4);
    }
  }

  get radius() {
    return Math.max(0.7, Math.min(this.picture.height, this.picture.width) / 20);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.picture.width - 0.5;
    const y = ((event.clientY - box.top) / box.height) * this.picture.height - 0.5;
    return { x, y };
  }

  line(from, to) {
    const picture = this.begin();
    penned(picture, this.pen, from, to, this.radius);
    this.changed();
  }

  start(event) {
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.cursor = null;
    this.last = this.place(event);
    this.line(this.last, this.last);
  }

  move(event) {
    if (this.last === null) return;
    const now = this.place(event);
    this.line(this.last, now);
    this.last = now;
  }

  stop() {
    this.last = null;
  }

  key(event) {
    const steps = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (event.key === "Escape") {
      this.hidePen();
    } else if (event.key === " " || event.key in steps) {
      event.preventDefault();
      const { width, height } = this.picture;
      this.cursor ??= { x: Math.floor(width / 2), y: Math.floor(height / 2) };
      if (event.key === " ") {
        this.line(this.cursor, this.cursor);
        return;
      }
      const [dx, dy] = steps[event.key];
      const x = Math.min(width - 1, Math.max(0, this.cursor.x + dx));
      const y = Math.min(height - 1, Math.max(0, this.cursor.y + dy));
      this.cursor = { x, y };
      this.show(this.picture);
    }
  }

  hidePen() {
    if (this.cursor === null) return;
    this.cursor = null;
    this.show(this.picture);
  }
}
