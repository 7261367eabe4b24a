// Masks: {width, height, data}, one byte a pixel, 255 = shadow. Functions return new masks unless they say otherwise.

const HALF = 128;

export const empty = (width, height) => ({ width, height, data: new Uint8Array(width * height) });
export const copy = (mask) => ({ ...mask, data: mask.data.slice() });
export const isEmpty = (mask) => !mask.data.some((level) => level >= HALF);
export const invert = (mask) => ({ ...mask, data: mask.data.map((level) => 255 - level) });
export const union = (one, other) => ({ ...one, data: one.data.map((level, i) => Math.max(level, other.data[i])) });

/** Paint one piece of a stroke into `mask` itself: all within `radius` of the line, to 255 or to 0, with a smooth rim. */
export function paint(mask, [x0, y0], [x1, y1], radius, erase) {
  const { width, height, data } = mask;
  const left = Math.max(0, Math.floor(Math.min(x0, x1) - radius - 1));
  const right = Math.min(width - 1, Math.ceil(Math.max(x0, x1) + radius + 1));
  const top = Math.max(0, Math.floor(Math.min(y0, y1) - radius - 1));
  const bottom = Math.min(height - 1, Math.ceil(Math.max(y0, y1) + radius + 1));
  const dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy || 1;
  for (let y = top; y <= bottom; y++) {
    for (let x = left; x <= right; x++) {
      const px = x + 0.5 - x0, py = y + 0.5 - y0;
      const along = Math.min(1, Math.max(0, (px * dx + py * dy) / length));
      const inside = radius + 0.5 - Math.hypot(px - along * dx, py - along * dy);
      if (inside <= 0) continue;
      const level = Math.round(255 * Math.min(1, inside)), i = y * width + x;
      data[i] = erase ? Math.min(data[i], 255 - level) : Math.max(data[i], level);
    }
  }
}

/** Number the connected shadows, largest first: `labels` holds 1, 2, … or 0; specks are left out. */
export function regions(mask, least = 0.0005) {
  const { width, height, data } = mask;
  const labels = new Int32Array(data.length), found = [], stack = [];
  for (let start = 0; start < data.length; start++) {
    if (data[start] < HALF || labels[start]) continue;
    const id = found.length + 1;
    let area = 0;
    labels[start] = id;
    stack.push(start);
    while (stack.length) {
      const i = stack.pop(), x = i % width;
      area++;
      const visit = (j) => { if (!labels[j] && data[j] >= HALF) { labels[j] = id; stack.push(j); } };
      if (x > 0) visit(i - 1);
      if (x < width - 1) visit(i + 1);
      if (i >= width) visit(i - width);
      if (i < data.length - width) visit(i + width);
    }
    found.push({ id, area });
  }
  const kept = found.filter(({ area }) => area >= least * data.length).sort((a, b) => b.area - a.area);
  const rank = new Int32Array(found.length + 1);
  kept.forEach(({ id }, i) => { rank[id] = i + 1; });
  for (let i = 0; i < labels.length; i++) labels[i] = rank[labels[i]];
  // Soft borders belong to the shadow that they surround.
  spread(labels, data, width);
  return { labels, list: kept.map(({ area }, i) => ({ number: i + 1, share: area / (width * height) })) };
}

function spread(labels, data, width) {
  for (let round = 0; round < 8; round++) {
    for (const [from, to, step] of [[0, labels.length, 1], [labels.length - 1, -1, -1]]) {
      for (let i = from; i !== to; i += step) {
        if (labels[i] || !data[i]) continue;
        labels[i] = labels[i - step] || labels[i - step * width] || 0;
      }
    }
  }
}

/** Add the numbered region of `found` to the mask, or take all of it away. */
export function toggle(mask, found, labels, number, on) {
  const data = mask.data.slice();
  for (let i = 0; i < data.length; i++) {
    if (labels[i] === number) data[i] = on ? Math.max(data[i], found.data[i]) : 0;
  }
  return { ...mask, data };
}

/** Whether most of each numbered region of `found` is marked. Soft borders do not count: they may outweigh what they surround. */
export function taken(mask, found, { labels, list }) {
  const all = new Uint32Array(list.length + 1), marked = new Uint32Array(list.length + 1);
  for (let i = 0; i < labels.length; i++) {
    if (!labels[i] || found.data[i] < HALF) continue;
    all[labels[i]]++;
    if (mask.data[i] >= HALF) marked[labels[i]]++;
  }
  return Array.from(all, (count, number) => marked[number] > count / 2);
}

// Masks and pictures.
function canvasOf(mask) {
  const canvas = new OffscreenCanvas(mask.width, mask.height), context = canvas.getContext("2d");
  const picture = context.createImageData(mask.width, mask.height);
  for (let i = 0; i < mask.data.length; i++) picture.data.fill(mask.data[i], 4 * i, 4 * i + 3);
  for (let i = 3; i < picture.data.length; i += 4) picture.data[i] = 255;
  context.putImageData(picture, 0, 0);
  return canvas;
}

/** The mask as a PNG, white on black, of its own or another size. */
export async function toPng(mask, width = mask.width, height = mask.height) {
  const small = canvasOf(mask);
  if (width === mask.width && height === mask.height) return small.convertToBlob({ type: "image/png" });
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").drawImage(small, 0, 0, width, height);
  return canvas.convertToBlob({ type: "image/png" });
}

/** Read a picture as a mask: white is shadow; of a layer that was painted in one colour, what is not transparent. */
export async function fromPicture(blob, width, height) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" }).catch(() => {
    throw new Error(`${blob.name ?? "what was found"} cannot be read as a mask here; save it as PNG`);
  });
  const fits = Math.abs(bitmap.width * height / (bitmap.height * width) - 1);
  if (fits > 0.02) throw new Error(`the mask is ${bitmap.width} × ${bitmap.height}, which is another shape than the photo's`);
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  const { data } = context.getImageData(0, 0, width, height);
  const mask = empty(width, height);
  let clear = false, brightest = 0;
  for (let i = 0; i < data.length; i += 4) {
    clear ||= data[i + 3] < 250;
    if (data[i + 3]) brightest = Math.max(brightest, data[i], data[i + 1], data[i + 2]);
  }
  for (let i = 0; i < mask.data.length; i++) {
    const [r, g, b, a] = data.subarray(4 * i, 4 * i + 4);
    mask.data[i] = clear ? (brightest < 40 ? a : a * Math.max(r, g, b) / brightest) : (r + g + b) / 3;
  }
  return mask;
}

/** The shadow around a spot as `seen` shows it, added to the mask; or, for `away`, the one in the mask cut down to it. */
export function around(mask, seen, [x, y], away) {
  const at = Math.floor(y) * mask.width + Math.floor(x);
  const { labels } = regions(away ? mask : seen, 0);
  if (!labels[at]) return null;
  const data = mask.data.slice();
  let changed = false;
  for (let i = 0; i < data.length; i++) {
    if (labels[i] !== labels[at]) continue;
    const level = away ? Math.min(data[i], seen.data[i]) : Math.max(data[i], seen.data[i]);
    changed ||= level !== data[i];
    data[i] = level;
  }
  return changed ? { ...mask, data } : null;
}
