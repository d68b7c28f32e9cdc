// Drawings made like the digits that scikit-learn brings: bitmaps of 32 x 32, counted in blocks of 4 x 4.

const SIDE = 32; // of the bitmap, in its own pixels
const WIDEST = 22; // as wide as digits are, with the pen
const PEN = 5; // thickness of a line
const FINE = 2; // points that are looked at along the side of a pixel
const CELLS = 8;

/** Whether a point is within reach of a line. */
function inked(x, y, [from, to], reach) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = dx * dx + dy * dy;
  const along = length === 0 ? 0 : ((x - from.x) * dx + (y - from.y) * dy) / length;
  const part = Math.min(1, Math.max(0, along));
  return Math.hypot(x - from.x - part * dx, y - from.y - part * dy) <= reach;
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
  const placed = centred(lines);
  const points = SIDE * FINE;
  const counts = new Float64Array(CELLS * CELLS);
  for (let row = 0; row < points; row += 1) {
    for (let column = 0; column < points; column += 1) {
      const [x, y] = [(column + 0.5) / FINE, (row + 0.5) / FINE];
      if (!placed.some((line) => inked(x, y, line, PEN / 2))) continue;
      const block = points / CELLS;
      counts[Math.floor(row / block) * CELLS + Math.floor(column / block)] += 1 / FINE ** 2;
    }
  }
  counts.forEach((count, place) => {
    bytes[place] = Math.round((Math.round(count) * 255) / 16);
  });
  return bytes;
}
