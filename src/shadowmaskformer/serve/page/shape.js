// The shape of a mask, changed as the library changes it (masks/shape.py): an octagon, by repeated shifts.

import { invert } from "./mask.js";

function highest(data, width, height, shifts) {
  const out = data.slice();
  for (const [down, right] of shifts) {
    const top = Math.max(down, 0), bottom = height + Math.min(down, 0);
    const left = Math.max(right, 0), end = width + Math.min(right, 0);
    for (let y = top; y < bottom; y++) {
      for (let x = left, to = y * width + x, from = (y - down) * width + x - right; x < end; x++, to++, from++) {
        if (data[from] > out[to]) out[to] = data[from];
      }
    }
  }
  return out;
}

function growSquare(data, width, height, radius) {
  for (const [down, right] of [[1, 0], [0, 1]]) {
    for (let reach = 0; reach < radius;) {
      const step = Math.min(reach + 1, radius - reach);
      data = highest(data, width, height, [[step * down, step * right], [-step * down, -step * right]]);
      reach += step;
    }
  }
  return data;
}

function growOctagon(data, width, height, radius) {
  const side = Math.round(radius * (Math.SQRT2 - 1));
  data = growSquare(data, width, height, side);
  for (let reach = 0; reach < radius - side;) {
    const step = Math.min((reach + 1) >> 1 || 1, radius - side - reach);
    data = highest(data, width, height, [[step, 0], [-step, 0], [0, step], [0, -step]]);
    reach += step;
  }
  return data;
}

export const grow = (mask, radius) => ({ ...mask, data: growOctagon(mask.data, mask.width, mask.height, radius) });
export const shrink = (mask, radius) => invert(grow(invert(mask), radius));

function boxMean(data, width, height, radius) {
  if (radius < 1) return data;
  const size = 2 * radius + 1, out = new Float32Array(data.length);
  const pass = (source, target, lines, length, stride, step) => {
    for (let line = 0; line < lines; line++) {
      const base = line * stride, at = (i) => source[base + step * Math.min(length - 1, Math.max(0, i))];
      let sum = 0;
      for (let i = -radius; i <= radius; i++) sum += at(i);
      for (let i = 0; i < length; i++) {
        target[base + i * step] = sum / size;
        sum += at(i + radius + 1) - at(i - radius);
      }
    }
  };
  const half = new Float32Array(data.length);
  pass(data, half, width, height, 1, width);
  pass(half, out, height, width, width, 1);
  return out;
}

/** The share of the correction that each pixel takes, as the library weighs it: `feather` pixels wide, in levels. */
export function blendWeight({ width, height, data }, feather) {
  const wider = Math.round(feather / 4), softer = Math.round(feather / 2);
  const grown = growSquare(growOctagon(data, width, height, wider), width, height, softer);
  const blurred = boxMean(boxMean(grown, width, height, softer - (softer >> 1)), width, height, softer >> 1);
  return data.map((level, i) => Math.max(level, Math.round(blurred[i])));
}
