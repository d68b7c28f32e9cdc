// Drawings made like the digits that scikit-learn brings: bitmaps of 32 x 32, counted in blocks of 4 x 4.

const SIDE = 32; // of the bitmap, in its own pixels
const WIDEST = 22; // as wide as digits are, with the pen
const PEN = 5; // thickness of a line
const FINE = 2; // points that are looked at along the side of a pixel
const POINTS = SIDE * FINE;
const CELLS = 8;

/** Whether a point is within reach of a line. */
function inked(x, y, [from, to], reach) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = dx * dx + dy * dy;
  const along = length === 0 ? 0 : ((x - from.x) * dx + (y - from.y) * dy) / length;
  const part = Math.min(1, Math.max(0, along));
  return (x - from.x - part * dx) ** 2 + (y - from.y - part * dy) ** 2 <= reach ** 2;
}

/** The points along an axis that may be within reach of a line between two places on it: the first, and the one behind. */
function near(one, other, reach) {
  const [least, most] = [Math.min(one, other) - reach, Math.max(one, other) + reach];
  return [Math.max(0, Math.floor(least * FINE - 0.5)), Math.min(POINTS, Math.ceil(most * FINE + 0.5))];
}

/** Lines, moved and scaled so that they fill the height, or the width, of the bitmap from its middle. */
function centred(lines) {
  const ends = lines.flat();
  const [xs, ys] = [ends.map((end) => end.x), ends.map((end) => end.y)];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const least = 1e-6; // a dot has no size
  const scale = Math.min((SIDE - PEN) / Math.max(bottom - top, least), (WIDEST - PEN) / Math.max(right - left, least));
  const place = (end) => ({
    x: (end.x - (left + right) / 2) * scale + SIDE / 2,
    y: (end.y - (top + bottom) / 2) * scale + SIDE / 2,
  });
  return lines.map(([from, to]) => [place(from), place(to)]);
}

/** Bytes (8 * 8) of a drawing: lines [from, to] between places {x, y}, in any units. */
export function scaled(lines) {
  const bytes = new Uint8Array(CELLS * CELLS);
  if (!lines.length) return bytes;
  const bitmap = new Uint8Array(POINTS * POINTS);
  for (const line of centred(lines)) {
    const [from, to] = line;
    const [top, bottom] = near(from.y, to.y, PEN / 2);
    const [left, right] = near(from.x, to.x, PEN / 2);
    for (let row = top; row < bottom; row += 1) {
      for (let column = left; column < right; column += 1) {
        const [x, y] = [(column + 0.5) / FINE, (row + 0.5) / FINE];
        if (inked(x, y, line, PEN / 2)) bitmap[row * POINTS + column] = 1;
      }
    }
  }
  const counts = new Float64Array(CELLS * CELLS);
  const block = POINTS / CELLS;
  bitmap.forEach((ink, place) => {
    const [row, column] = [Math.floor(place / POINTS), place % POINTS];
    counts[Math.floor(row / block) * CELLS + Math.floor(column / block)] += ink / FINE ** 2;
  });
  counts.forEach((count, place) => {
    bytes[place] = Math.round((Math.round(count) * 255) / 16);
  });
  return bytes;
}
