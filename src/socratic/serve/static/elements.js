// Elements made of names, settings and text. Text is only ever set as text: names and values of models may hold markup.

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, settings = {}, ...children) {
  return fill(document.createElement(tag), settings, children);
}

export function drawn(tag, settings = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), settings, children);
}

function fill(made, settings, children) {
  for (const [name, value] of Object.entries(settings)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

let count = 0;

/** A name for an element that no other has. */
export function fresh(stem) {
  count += 1;
  return `${stem}-${count}`;
}

/** A card with a heading, which names it for those who do not see it. */
export function card(title, className, ...children) {
  const id = fresh("card");
  const heading = element("h2", { id }, title);
  return element("section", { class: `card ${className}`, "aria-labelledby": id }, heading, ...children);
}

/** A line of less important text. */
export function aside(...words) {
  return element("p", { class: "quiet" }, ...words);
}

export function percent(share, digits = 1) {
  return share === null ? "–" : `${(100 * share).toFixed(digits)} %`;
}

/** A probability and its standard deviation, in percent. */
export function withDeviation(probability, std) {
  return [percent(probability), element("small", {}, ` ± ${(100 * (std ?? 0)).toFixed(1)}`)];
}

/** A number in few digits, as people write it. */
export function short(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(1);
  return String(Number(value.toPrecision(digits)));
}
