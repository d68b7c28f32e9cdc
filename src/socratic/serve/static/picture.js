// Pictures as models see them, and what may be done to them.
// A picture has height, width, channels, values (H * W * C) from 0 to 255, and hidden (H * W): 1 where it is missing.

export function blank([height, width, channels]) {
  const values = new Float32Array(height * width * channels);
  return { height, width, channels, values, hidden: new Uint8Array(height * width) };
}

/** Whether nothing is to be seen on a picture, and nothing of it is missing. */
export function isEmpty({ values, hidden }) {
  return values.every((value) => Math.round(value) === 0) && hidden.every((missing) => !missing);
}

export function fromLists(pixels, shape) {
  const picture = blank(shape);
  picture.values.set(pixels.flat(2));
  return picture;
}

/** Lists (H, W) or (H, W, C) of whole numbers, null where a pixel is missing. */
export function toLists({ height, width, channels, values, hidden }) {
  const level = (place) => Math.round(values[place]);
  return Array.from({ length: height }, (_, y) =>
    Array.from({ length: width }, (_, x) => {
      const place = y * width + x;
      if (channels === 1) return hidden[place] ? null : level(place);
      return Array.from({ length: channels }, (_, c) => (hidden[place] ? null : level(place * channels + c)));
    }),
  );
}

/** A file's picture, as large as it can be within the shape, in its middle. */
export async function fromFile(file, shape) {
  const source = await createImageBitmap(file);
  const [height, width, channels] = shape;
  const scale = Math.min(width / source.width, height / source.height);
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillRect(0, 0, width, height);
  const [w, h] = [source.width * scale, source.height * scale];
  context.drawImage(source, (width - w) / 2, (height - h) / 2, w, h);
  const { data } = context.getImageData(0, 0, width, height);
  const picture = blank(shape);
  for (let place = 0; place < height * width; place += 1) {
    const [red, green, blue] = data.subarray(4 * place, 4 * place + 3);
    if (channels === 1) picture.values[place] = 0.299 * red + 0.587 * green + 0.114 * blue;
    else picture.values.set([red, green, blue], 3 * place);
  }
  return picture;
}

export function copied(picture) {
  return { ...picture, values: picture.values.slice(), hidden: picture.hidden.slice() };
}

export function inverted(picture) {
  return { ...picture, values: picture.values.map((value) => 255 - value) };
}

export function turned(picture, degrees) {
  if (degrees === 0) return picture;
  const { height, width, channels } = picture;
  const angle = (degrees * Math.PI) / 180;
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  const [middleY, middleX] = [(height - 1) / 2, (width - 1) / 2];
  const result = blank([height, width, channels]);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const [dy, dx] = [y - middleY, x - middleX];
      const [fromY, fromX] = [cos * dy - sin * dx + middleY, sin * dy + cos * dx + middleX];
      for (let c = 0; c < channels; c += 1) {
        result.values[(y * width + x) * channels + c] = between(picture, fromY, fromX, c);
      }
      const [nearY, nearX] = [Math.round(fromY), Math.round(fromX)];
      const inside = nearY >= 0 && nearY < height && nearX >= 0 && nearX < width;
      result.hidden[y * width + x] = inside ? picture.hidden[nearY * width + nearX] : 0;
    }
  }
  return result;
}

/** The level at a place between pixels; outside it is dark. */
function between({ height, width, channels, values }, y, x, c) {
  const [top, left] = [Math.floor(y), Math.floor(x)];
  let level = 0;
  for (const [row, share] of [[top, top + 1 - y], [top + 1, y - top]]) {
    for (const [column, part] of [[left, left + 1 - x], [left + 1, x - left]]) {
      if (row >= 0 && row < height && column >= 0 && column < width) {
        level += share * part * values[(row * width + column) * channels + c];
      }
    }
  }
  return level;
}

export function blurred(picture, deviation) {
  if (deviation === 0) return picture;
  const reach = Math.ceil(3 * deviation);
  const steps = Array.from({ length: 2 * reach + 1 }, (_, place) => place - reach);
  const weights = steps.map((step) => Math.exp(-((step / deviation) ** 2) / 2));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const once = (source, stepY, stepX) => {
    const { height, width, channels, values } = source;
    const result = copied(source);
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        for (let c = 0; c < channels; c += 1) {
          let sum = 0;
          for (const step of steps) {
            const [row, column] = [y + step * stepY, x + step * stepX];
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            sum += weights[step + reach] * values[(row * width + column) * channels + c];
          }
          result.values[(y * width + x) * channels + c] = sum / total;
        }
      }
    }
    return result;
  };
  return once(once(picture, 0, 1), 1, 0);
}

/** Normal noise, always the same, of a deviation in shares of the brightest level. */
export function noisy(picture, deviation) {
  if (deviation === 0) return picture;
  const next = random(7);
  const result = copied(picture);
  for (let place = 0; place < result.values.length; place += 1) {
    const size = Math.sqrt(-2 * Math.log(1 - next()));
    const level = result.values[place] + 255 * deviation * size * Math.cos(2 * Math.PI * next());
    result.values[place] = Math.min(255, Math.max(0, level));
  }
  return result;
}

/** Numbers from 0 to 1, from a seed. */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The lowest share of a picture is missing. */
export function covered(picture, share) {
  const result = { ...picture, hidden: picture.hidden.slice() };
  result.hidden.fill(1, Math.round(picture.height * (1 - share)) * picture.width);
  return result;
}

/** A line of a pen from one place to another, in pixels: it draws, wipes out, or covers. */
export function penned(picture, pen, from, to, radius) {
  const { height, width, channels, values, hidden } = picture;
  const [dy, dx] = [to.y - from.y, to.x - from.x];
  const length = dy * dy + dx * dx;
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const along = length === 0 ? 0 : ((y - from.y) * dy + (x - from.x) * dx) / length;
      const part = Math.min(1, Math.max(0, along));
      const distance = Math.hypot(y - from.y - part * dy, x - from.x - part * dx);
      const ink = Math.min(1, Math.max(0, radius + 0.5 - distance));
      const place = y * width + x;
      if (pen === "cover") {
        if (ink > 0.5) hidden[place] = 1;
        continue;
      }
      if (ink > 0.5) hidden[place] = 0;
      for (let c = 0; c < channels; c += 1) {
        const level = values[place * channels + c];
        values[place * channels + c] = pen === "draw" ? Math.max(level, 255 * ink) : Math.min(level, 255 * (1 - ink));
      }
    }
  }
}
