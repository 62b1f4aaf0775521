// A moving GIF from frames of pixels, with no library: at most 256 colours, of each frame the part that has changed.

const GIF_BITS = 8;

// `frames` are [RGBA bytes, seconds]; bytes of a GIF that repeats for ever.
function gifOf(frames, width, height) {
  const palette = paletteOf(frames.map(([pixels]) => pixels));
  const out = [...ascii("GIF89a"), ...word(width), ...word(height), 0xf7, 0, 0, ...palette.bytes];
  out.push(0x21, 0xff, 11, ...ascii("NETSCAPE2.0"), 3, 1, 0, 0, 0);
  let before = null;
  for (const [pixels, seconds] of frames) {
    const indices = palette.indices(pixels);
    const box = before ? changedBox(before, indices, width, height) : [0, 0, width, height];
    out.push(0x21, 0xf9, 4, 4, ...word(Math.round(seconds * 100)), 0, 0);
    out.push(0x2c, ...box.flatMap(word), 0, GIF_BITS);
    for (const block of blocksOf(lzw(cropped(indices, width, box)))) {
      out.push(block.length);
      for (const byte of block) out.push(byte);
    }
    out.push(0);
    before = indices;
  }
  out.push(0x3b);
  return Uint8Array.from(out);
}

function ascii(text) {
  return [...text].map((letter) => letter.charCodeAt(0));
}

function word(number) {
  return [number & 255, number >> 8];
}

// The most frequent colours of all frames, of 5 bits a channel, and for every other the nearest of them.
function paletteOf(pictures) {
  const [counts, exact, places] = [new Uint32Array(32768), new Uint32Array(32768), new Int16Array(32768).fill(-1)];
  const key = (pixels, i) => ((pixels[i] >> 3) << 10) | ((pixels[i + 1] >> 3) << 5) | (pixels[i + 2] >> 3);
  for (const pixels of pictures) {
    for (let i = 0; i < pixels.length; i += 4) {
      const at = key(pixels, i);
      if (!counts[at]++) exact[at] = (pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2];
    }
  }
  const used = [...counts.keys()].filter((at) => counts[at]).sort((a, b) => counts[b] - counts[a]);
  const colours = used.slice(0, 256).map((at) => exact[at]);
  const parts = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];
  const far = (a, b) => parts(a).reduce((sum, part, i) => sum + (part - parts(b)[i]) ** 2, 0);
  for (const [rank, at] of used.entries()) {
    if (rank < 256) places[at] = rank;
    else places[at] = colours.reduce((best, colour, i) => (far(colour, exact[at]) < far(colours[best], exact[at]) ? i : best), 0);
  }
  const bytes = Array.from({ length: 256 }, (_, i) => parts(colours[i] ?? 0)).flat();
  const indices = (pixels) => Uint8Array.from({ length: pixels.length / 4 }, (_, i) => places[key(pixels, 4 * i)]);
  return { bytes, indices };
}

function changedBox(before, now, width, height) {
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (before[i] === now[i]) continue;
      [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x + 1), Math.min(top, y), y + 1];
    }
  }
  return right ? [left, top, right - left, bottom - top] : [0, 0, 1, 1];
}

function cropped(indices, width, [left, top, wide, high]) {
  const part = new Uint8Array(wide * high);
  for (let y = 0; y < high; y++) {
    const from = (top + y) * width + left;
    part.set(indices.subarray(from, from + wide), y * wide);
  }
  return part;
}

// LZW as GIF has it: codes grow from 9 to 12 bits, then the table begins anew.
function lzw(pixels) {
  const [clear, end] = [256, 257];
  const bytes = [];
  let [buffer, filled, size, next, table] = [0, 0, 9, 258, new Map()];
  const put = (code) => {
    buffer |= code << filled;
    filled += size;
    while (filled >= 8) {
      bytes.push(buffer & 255);
      buffer >>>= 8;
      filled -= 8;
    }
  };
  put(clear);
  let prefix = pixels[0];
  for (let i = 1; i < pixels.length; i++) {
    const pair = prefix * 256 + pixels[i];
    const code = table.get(pair);
    if (code !== undefined) {
      prefix = code;
      continue;
    }
    put(prefix);
    table.set(pair, next);
    if (next === 1 << size && size < 12) size += 1;
    next += 1;
    if (next > 4095) {
      put(clear);
      [size, next, table] = [9, 258, new Map()];
    }
    prefix = pixels[i];
  }
  put(prefix);
  put(end);
  if (filled) bytes.push(buffer & 255);
  return bytes;
}

function blocksOf(bytes) {
  const blocks = [];
  for (let i = 0; i < bytes.length; i += 255) blocks.push(bytes.slice(i, i + 255));
  return blocks;
}
