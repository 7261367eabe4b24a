// Writes a ZIP of files as they are: pictures are compressed already.

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

function crc(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

function record(signature, fields) {
  const view = new DataView(new ArrayBuffer(4 + fields.reduce((sum, [bytes]) => sum + bytes, 0)));
  view.setUint32(0, signature, true);
  let at = 4;
  for (const [bytes, value] of fields) {
    bytes === 2 ? view.setUint16(at, value, true) : view.setUint32(at, value, true);
    at += bytes;
  }
  return view.buffer;
}

/** `files` are {name, file}; a name that comes twice is numbered. */
export async function zip(files) {
  const parts = [], directory = [], names = new Set();
  let offset = 0;
  for (const { name, file } of files) {
    let unique = name;
    for (let n = 2; names.has(unique); n++) unique = name.replace(/(\.[^.]*)?$/, ` ${n}$1`);
    names.add(unique);
    const bytes = new Uint8Array(await file.arrayBuffer()), label = new TextEncoder().encode(unique);
    const about = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, 0x21], [4, crc(bytes)], [4, bytes.length], [4, bytes.length], [2, label.length], [2, 0]];
    const head = record(0x04034b50, about);
    parts.push(head, label, file);
    directory.push(record(0x02014b50, [[2, 20], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), label);
    offset += head.byteLength + label.length + bytes.length;
  }
  const size = directory.reduce((sum, part) => sum + part.byteLength, 0);
  const end = record(0x06054b50, [[2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, offset], [2, 0]]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
