// Draws the photo with WebGL: the picture, the mask over it, and the shadow's light changed live.

const VERTEX = `#version 300 es
in vec2 corner; out vec2 place;
uniform vec4 frame; // left, top, width, height of the photo, in clip space
void main() { place = corner; gl_Position = vec4(frame.x + corner.x * frame.z, frame.y - corner.y * frame.w, 0, 1); }`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec2 place; out vec4 colour;
uniform sampler2D photo, result, gain, offset, weight, marks; // marks: red = mask, green = found, blue = pointed at
uniform float strength, split, reveal, overlay, full;
uniform vec3 accent;

vec3 smoothed() { // masks may be jagged; their outline should not be
  vec2 step = 2.0 / vec2(textureSize(marks, 0));
  vec3 sum = 2.0 * texture(marks, place).rgb;
  for (int x = -1; x <= 1; x += 2) for (int y = -1; y <= 1; y += 2) sum += texture(marks, place + step * vec2(x, y)).rgb;
  for (int way = -1; way <= 1; way += 2) {
    sum += texture(marks, place + 1.6 * step * vec2(way, 0)).rgb + texture(marks, place + 1.6 * step * vec2(0, way)).rgb;
  }
  return sum / 10.0;
}

float outline(float level, float width) { // 1 on the line where the level passes a half; where it rests there is none
  vec2 texel = fwidth(place) * vec2(textureSize(marks, 0));
  return 1.0 - smoothstep(width - 0.8, width + 0.8, abs(level - 0.5) / max(fwidth(level), 0.02 * max(texel.x, texel.y)));
}

vec3 onWhite(sampler2D picture) { // as in the filmstrip, where a picture is transparent
  vec4 seen = texture(picture, place);
  return seen.rgb + 1.0 - seen.a;
}

void main() {
  vec3 before = onWhite(photo);
  vec3 relit = clamp(texture(gain, place).rgb * before + texture(offset, place).rgb, 0.0, 1.0);
  vec3 live = before + strength * texture(weight, place).r * (relit - before);
  vec3 after = mix(live, onWhite(result), full);
  vec3 shown = mix(before, after, reveal * step(split, place.x));
  colour = vec4(shown, 1);
  if (overlay == 0.0) return;
  vec3 mark = smoothed();
  float taken = outline(mark.r, 1.1), found = outline(mark.g, 0.9) * (1.0 - step(0.02, mark.r));
  vec3 painted = mix(shown, accent, 0.38 * smoothstep(0.1, 0.9, mark.r));
  painted = mix(painted, vec3(1), 0.22 * mark.b * smoothstep(0.35, 0.6, mark.g) * (1.0 - smoothstep(0.1, 0.9, mark.r)));
  painted = mix(painted, vec3(0), 0.45 * max(outline(mark.r, 2.4), outline(mark.g, 2.2)));
  painted = mix(painted, vec3(1), found);
  painted = mix(painted, accent, taken);
  colour = vec4(mix(shown, painted, overlay), 1);
}`;

const NAMES = ["photo", "result", "gain", "offset", "weight", "marks"];

export class View {
  constructor(canvas) {
    this.canvas = canvas;
    const gl = this.gl = canvas.getContext("webgl2", { alpha: true, antialias: false, premultipliedAlpha: true });
    if (!gl) throw new Error("this browser has no WebGL 2, which the page draws with");
    this.values = { strength: 1, split: 0, reveal: 0, overlay: 1, full: 0 };
    this.size = [1, 1];
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { this.prepare(); this.onrestored?.(); });
    this.prepare();
  }

  prepare() {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([0, 0, 1, 0, 0, 1, 1, 1]), gl.STATIC_DRAW);
    const corner = gl.getAttribLocation(program, "corner");
    gl.enableVertexAttribArray(corner);
    gl.vertexAttribPointer(corner, 2, gl.FLOAT, false, 0, 0);
    this.at = (name) => gl.getUniformLocation(program, name);
    this.held = {};
    this.textures = Object.fromEntries(NAMES.map((name, unit) => {
      gl.uniform1i(this.at(name), unit);
      return [name, { unit, texture: gl.createTexture() }];
    }));
    for (const name of NAMES) this.upload(name, [gl.RGBA8, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4)]);
  }

  upload(name, [format, ...rest], sharp = false) {
    const { gl } = this, { unit, texture } = this.textures[name];
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    if (rest.length === 3) gl.texImage2D(gl.TEXTURE_2D, 0, format, ...rest); // a picture
    else gl.texImage2D(gl.TEXTURE_2D, 0, format, rest[0], rest[1], 0, ...rest.slice(2));
    for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, sharp ? gl.LINEAR_MIPMAP_LINEAR : gl.LINEAR);
    if (sharp) gl.generateMipmap(gl.TEXTURE_2D);
  }

  /** Show a picture as `photo` or `result`; the same one twice costs nothing. */
  picture(name, bitmap) {
    if (this.held[name] === bitmap) return;
    this.held[name] = bitmap;
    if (bitmap) this.upload(name, [this.gl.RGBA8, this.gl.RGBA, this.gl.UNSIGNED_BYTE, bitmap], true);
    if (bitmap && name === "photo") this.size = [bitmap.width, bitmap.height];
  }

  correction(found) {
    if (!found || this.held.correction === found) return;
    this.held.correction = found;
    const { gl } = this, { width, height, planes } = found;
    const split = [new Uint16Array(4 * width * height), new Uint16Array(4 * width * height)];
    for (let i = 0; i < width * height; i++) {
      split[0].set(planes.subarray(8 * i, 8 * i + 4), 4 * i);
      split[1].set(planes.subarray(8 * i + 4, 8 * i + 8), 4 * i);
    }
    this.upload("gain", [gl.RGBA16F, width, height, gl.RGBA, gl.HALF_FLOAT, split[0]]);
    this.upload("offset", [gl.RGBA16F, width, height, gl.RGBA, gl.HALF_FLOAT, split[1]]);
  }

  weight(data, width, height) {
    const { gl } = this;
    this.upload("weight", [gl.R8, width, height, gl.RED, gl.UNSIGNED_BYTE, data]);
  }

  /** The mask, what was found, and the numbered shadow that the pointer is on. */
  marks(mask, found, labels, pointed) {
    const { gl } = this, { width, height, data } = mask;
    if (this.all?.length !== data.length) this.all = new Uint32Array(data.length);
    const { all } = this;
    for (let i = 0; i < data.length; i++) all[i] = data[i];
    if (found) for (let i = 0; i < data.length; i++) all[i] |= found.data[i] << 8;
    if (pointed) for (let i = 0; i < data.length; i++) if (labels[i] === pointed) all[i] |= 255 << 16;
    this.upload("marks", [gl.RGBA8, width, height, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(all.buffer)]);
  }

  /** Draw; `frame` is where the photo lies, in CSS pixels of the canvas: {x, y, width, height}. */
  draw(frame) {
    const { gl, canvas } = this, ratio = Math.min(devicePixelRatio, 2);
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    gl.uniform4f(this.at("frame"), 2 * frame.x / w - 1, 1 - 2 * frame.y / h, 2 * frame.width / w, 2 * frame.height / h);
    for (const [name, value] of Object.entries(this.values)) gl.uniform1f(this.at(name), value);
    gl.uniform3f(this.at("accent"), ...this.accent);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }
}
