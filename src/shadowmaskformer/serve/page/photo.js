// A photo as the page holds it: the file itself, a picture to show, and a reduced copy to work on.

import * as engine from "./engine.js";

const WORK_PIXELS = 1024 * 1024; // as the library reduces photos
const phone = matchMedia("(pointer: coarse)").matches;
const SHOWN_SIDE = phone ? 2560 : 4096;

const fit = (width, height, pixels) => {
  const scale = Math.min(1, Math.sqrt(pixels / (width * height)));
  return [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
};

export class Photo {
  constructor(file, name) { this.file = file; this.name = name; }

  /** Read the file; throws what is wrong with it. */
  static async read(file, name = file.name) {
    const photo = new Photo(file, name);
    await photo.open();
    const small = photo.draw(photo.workWidth, photo.workHeight);
    photo.small = await small.convertToBlob({ type: "image/jpeg", quality: 0.95 });
    return photo;
  }

  /** Decode the picture to show, unless it is there. */
  async open() {
    if (this.bitmap) return this.bitmap;
    let bitmap, width, height;
    try {
      bitmap = await createImageBitmap(this.file);
      ({ width, height } = bitmap);
    } catch {
      const shown = await engine.preview(this.file);
      ({ width, height } = shown);
      bitmap = await createImageBitmap(shown.picture);
    }
    const scale = SHOWN_SIDE / Math.max(bitmap.width, bitmap.height);
    if (scale < 1) {
      const large = bitmap;
      const size = { resizeWidth: Math.round(large.width * scale), resizeHeight: Math.round(large.height * scale) };
      bitmap = await createImageBitmap(large, { ...size, resizeQuality: "high" });
      large.close();
    }
    [this.width, this.height] = [width, height];
    [this.workWidth, this.workHeight] = fit(width, height, WORK_PIXELS);
    this.bitmap = bitmap;
    return bitmap;
  }

  /** Forget the picture to show, to save memory; `open` brings it back. */
  close() { this.bitmap?.close(); this.bitmap = null; }

  draw(width, height) {
    const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, height);
    context.drawImage(this.bitmap, 0, 0, width, height);
    return canvas;
  }

  /** A small picture for the filmstrip, as an address for an <img>. */
  async thumbnail(side = 112) {
    const scale = side / Math.min(this.width, this.height);
    const canvas = this.draw(Math.max(1, Math.round(this.width * scale)), Math.max(1, Math.round(this.height * scale)));
    return URL.createObjectURL(await canvas.convertToBlob({ type: "image/jpeg", quality: 0.85 }));
  }
}
