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
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {

#if defined(SMF_ISA_scalar)

std::size_t conv_block_scratch(const ConvBlock& block, int height, int width, int) {
  return 2 * Arena::bytes(std::size_t(height) * width * block.channels) + Arena::bytes(block.mlp.first.outputs);
}

// One token times a weight (outputs, inputs).
static void linear(const Matrix& m, const float* x, float* out) {
  for (int n = 0; n < m.outputs; ++n) {
    float total = m.bias[n];
    for (int k = 0; k < m.inputs; ++k) total += m.packed[long(n) * m.inputs + k] * x[k];
    out[n] = total;
  }
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
  for (long p = 0; p < pixels; ++p) linear(block.v, x + p * C, v + p * C);
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      for (int c = 0; c < C; ++c) {
        float total = block.conv.bias[c];
        for (int dy = -2; dy <= 2; ++dy)
          for (int dx = -2; dx <= 2; ++dx)
            if (row + dy >= 0 && row + dy < height && column + dx >= 0 && column + dx < width)
              total += block.conv.weight[((dy + 2) * 5 + dx + 2) * C + c] *
                       v[((long(row) + dy) * width + column + dx) * C + c];
        mixed[(long(row) * width + column) * C + c] = total;
      }
  for (long p = 0; p < pixels; ++p) {
    float* y = v + p * C;
    linear(block.proj, mixed + p * C, y);
    for (int c = 0; c < C; ++c) y[c] += x[p * C + c];
    linear(block.mlp.first, y, hidden);
    for (int h = 0; h < block.mlp.first.outputs; ++h) hidden[h] = hidden[h] > 0 ? hidden[h] : 0;
    linear(block.mlp.second, hidden, out + p * C);
    for (int c = 0; c < C; ++c) out[p * C + c] += y[c];
  }
  if (moments) *moments = moments_of(out, pixels * C);
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
  const int most = (height + 15) / 16;
  int bands = (kTasks + t.tiles - 1) / t.tiles;
  if (bands > most) bands = most;
  t.band = (height + bands - 1) / bands;
  t.bands = (height + t.band - 1) / t.band;
  return t;
}

std::size_t worker_floats(const ConvBlock& block, const Tiling& t) {
  return std::size_t(5 * (t.tile + 4) + 2 * t.tile) * block.channels + mlp_scratch(block.mlp, t.tile);
}

}  // namespace

std::size_t conv_block_scratch(const ConvBlock& block, int height, int width, int threads) {
  const Tiling t = choose_tiling(block.channels, height, width);
  return Arena::bytes(threads * Arena::slice(worker_floats(block, t))) +
         Arena::bytes(std::size_t(t.tiles) * t.bands * sizeof(Moments) / sizeof(float));
}

void conv_block(const ConvBlock& block, int height, int width, const float* x, float* out, Moments* moments,
                Arena& arena, int threads) {
  const Tiling t = choose_tiling(block.channels, height, width);
  const int C = block.channels;
  const std::size_t position = arena.used();
  Moments* parts = reinterpret_cast<Moments*>(arena.floats(std::size_t(t.tiles) * t.bands * sizeof(Moments) / 4));
  const std::size_t stride = Arena::slice(worker_floats(block, t));
  float* scratch = arena.floats(stride * threads);

  parallel(threads, t.tiles * t.bands, [&](int task, int worker) {
    const int left = task % t.tiles * t.tile, first = task / t.tiles * t.band;
    const int right = left + t.tile < width ? left + t.tile : width;
    const int end = first + t.band < height ? first + t.band : height;
    const int columns = right - left;
    const long ring_row = long(t.tile + 4) * C;
    float* ring = scratch + worker * stride;  // V of row r is at (r mod 5); its first token is column left - 2
    float* mixed = ring + 5 * ring_row;
    float* y = mixed + long(t.tile) * C;
    float* hidden = y + long(t.tile) * C;
    for (long i = 0; i < 5 * ring_row; ++i) ring[i] = 0;  // columns outside the picture stay zero

    const int v_left = left >= 2 ? left - 2 : 0, v_right = right + 2 < width ? right + 2 : width;
    const auto project_row = [&](int row) {
      float* at = ring + (row + 5) % 5 * ring_row;
      if (row >= 0 && row < height)
        matmul<Finish::plain>(v_right - v_left, x + (long(row) * width + v_left) * C, C, block.v, nullptr, 0,
                              at + long(v_left - (left - 2)) * C, C);
      else
        for (long i = 0; i < ring_row; ++i) at[i] = 0;
    };
    for (int row = first - 2; row < first + 2; ++row) project_row(row);

    Moments total{0, 0, 0};
    for (int row = first; row < end; ++row) {
      project_row(row + 2);
      const float* rows[5];
      for (int dy = 0; dy < 5; ++dy) rows[dy] = ring + (row + dy + 3) % 5 * ring_row;
      depthwise_row(rows, columns, C, block.conv, mixed, C);
      const long at = (long(row) * width + left) * C;
      matmul<Finish::plain>(columns, mixed, C, block.proj, x + at, C, y, C);
      mlp_residual(block.mlp, columns, C, y, hidden, out + at);
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
