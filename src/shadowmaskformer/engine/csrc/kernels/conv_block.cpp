// Convolution block:  y = x + proj(dw5x5(v(x)));  out = y + W2 relu(W1 y + b1) + b2
//
// Layout     x, out (H, W, C), channels last.
// Threads    The map is cut into column tiles x row bands; each pair is a task. Tasks share nothing but their input,
//            and the cut does not depend on the number of threads: any number gives the same bits.
// Fusion     A task walks down its rows. It keeps the last five rows of V, two columns wider than the tile on each
//            side, in a ring; each new row of V allows one row of output, which passes through depthwise, projection
//            and MLP while it is in cache. So x is read once and out written once, where separate operators would
//            write and read five maps, one of them up to four times as wide. V is computed twice in the margins of 2.
// Speed      75 to 85 % of the processor's peak of multiply-adds (one core, AVX2).
// Scratch    per thread: (5 (T + 4) + 2 T) C + T min(hidden, 96) floats for tile width T.
#include "core/threads.h"
#include "kernels/depthwise.h"
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {

#if defined(SMF_ISA_scalar)

std::size_t conv_block_scratch(const ConvBlock& block, int height, int width, int) {
  return 2 * Arena::bytes(std::size_t(height) * width * block.channels) + Arena::bytes(block.mlp.first.outputs);
}

// Scalar: operator after operator, as the formula reads.
void conv_block(const ConvBlock& block, int height, int width, const float* x, float* out, Moments* moments,
                Arena& arena, int) {
  const int C = block.channels;
  const long pixels = long(height) * width;
  const std::size_t position = arena.used();
  float* v = arena.floats(pixels * C);
  float* mixed = arena.floats(pixels * C);
  float* hidden = arena.floats(block.mlp.first.outputs);
  for (long p = 0; p < pixels; ++p) scalar_linear(block.v, x + p * C, v + p * C);
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      for (int c = 0; c < C; ++c)
        mixed[(long(row) * width + column) * C + c] = scalar_depthwise(block.conv, height, width, C, v, row, column, c);
  for (long p = 0; p < pixels; ++p) {
    float* y = v + p * C;
    scalar_linear(block.proj, mixed + p * C, y);
    for (int c = 0; c < C; ++c) y[c] += x[p * C + c];
    scalar_mlp_residual(block.mlp, y, hidden, out + p * C);
  }
  if (moments) *moments = moments_of_map(out, pixels * C, 1);
  arena.rewind(position);
}

#else

namespace {

// Tasks to cut a map into, if it is large enough.
constexpr int kTasks = 32;

// How a map is cut into tasks.
struct Tiling {
  int tile, tiles;  // columns of a tile, tiles in a row
  int band, bands;  // rows of a band, bands in a column
};

// Tiles of about 64 tokens at 24 and 48 channels, 32 at 96: the ring then stays in the second-level cache beside the
// weights. Bands are long, as each computes V for four rows more than it has, but there are enough of them to balance.
Tiling choose_tiling(int channels, int height, int width) {
  const int wish = channels > 64 ? 32 : 64;
  Tiling t;
  t.tiles = (width + wish - 1) / wish;
  t.tile = (width + t.tiles - 1) / t.tiles;
  const int bands = smaller((kTasks + t.tiles - 1) / t.tiles, (height + 15) / 16);
  t.band = (height + bands - 1) / bands;
  t.bands = (height + t.band - 1) / t.band;
  return t;
}

// One thread's scratch for a tile.
struct Scratch {
  float* ring;  // the last five rows of V: row r is at (r mod 5); its first token is column left - 2
  float *mixed, *y, *hidden;
  std::size_t used;

  Scratch(const ConvBlock& block, int tile, float* memory) {
    Slices slices(memory);
    ring = slices.take(5L * (tile + 4) * block.channels);
    mixed = slices.take(long(tile) * block.channels);
    y = slices.take(long(tile) * block.channels);
    hidden = slices.take(mlp_scratch(block.mlp, tile));
    used = slices.used();
  }
};

}  // namespace

std::size_t conv_block_scratch(const ConvBlock& block, int height, int width, int threads) {
  const Tiling t = choose_tiling(block.channels, height, width);
  return Arena::bytes(threads * Arena::slice(Scratch(block, t.tile, nullptr).used)) +
         Arena::bytes(std::size_t(t.tiles) * t.bands * sizeof(Moments) / sizeof(float));
}

void conv_block(const ConvBlock& block, int height, int width, const float* x, float* out, Moments* moments,
                Arena& arena, int threads) {
  const Tiling t = choose_tiling(block.channels, height, width);
  const int C = block.channels;
  const std::size_t position = arena.used();
  Moments* parts = reinterpret_cast<Moments*>(arena.floats(std::size_t(t.tiles) * t.bands * sizeof(Moments) / 4));
  const std::size_t stride = Arena::slice(Scratch(block, t.tile, nullptr).used);
  float* scratch = arena.floats(stride * threads);

  parallel(threads, t.tiles * t.bands, [&](int task, int worker) {
    const int left = task % t.tiles * t.tile, first = task / t.tiles * t.band;
    const int right = smaller(left + t.tile, width), end = smaller(first + t.band, height);
    const int columns = right - left;
    const long ring_row = long(t.tile + 4) * C;
    const Scratch s(block, t.tile, scratch + worker * stride);
    zero(s.ring, 5 * ring_row);  // columns outside the picture stay zero

    const int v_left = larger(left - 2, 0), v_right = smaller(right + 2, width);
    const auto project_row = [&](int row) {
      float* at = s.ring + (row + 5) % 5 * ring_row;
      if (row >= 0 && row < height)
        linear(v_right - v_left, x + (long(row) * width + v_left) * C, C, block.v, at + long(v_left - (left - 2)) * C,
               C);
      else
        zero(at, ring_row);
    };
    for (int row = first - 2; row < first + 2; ++row) project_row(row);

    Moments total{0, 0, 0};
    for (int row = first; row < end; ++row) {
      project_row(row + 2);
      const float* rows[5];
      for (int dy = 0; dy < 5; ++dy) rows[dy] = s.ring + (row + dy + 3) % 5 * ring_row;
      depthwise_row(rows, columns, C, block.conv, s.mixed);
      const long at = (long(row) * width + left) * C;
      linear(columns, s.mixed, C, block.proj, s.y, C, x + at, C);
      mlp_residual(block.mlp, columns, s.y, s.hidden, out + at);
      if (moments) combine(total, moments_of(out + at, long(columns) * C));
    }
    parts[task] = total;
  });

  if (moments) {
    *moments = Moments{0, 0, 0};
    for (int i = 0; i < t.tiles * t.bands; ++i) combine(*moments, parts[i]);
  }
  arena.rewind(position);
}

#endif

}  // namespace SMF_ISA
}  // namespace smf
