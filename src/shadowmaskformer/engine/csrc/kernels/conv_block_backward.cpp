// The convolution block in training.
//
//   v = x·Wvᵀ + bv,  u = dw5×5(v) + bc,  y1 = x + u·Wpᵀ + bp,  y = y1 + mlp(y1)
//
// Forward and backward each are one pass over the rows of a picture. Rows of v that the convolution still needs wait in a
// ring of five; the backward pass recomputes them and keeps a second ring for du, two rows behind, because
// dv is the convolution of du with the flipped kernel:
//
//   row r       v    = x·Wvᵀ + bv
//   row r − 2   u, y1, h recomputed; dy1 = dy + mlp'(dy);  du = dy1·Wp;  gradients of MLP, projection, kernel
//   row r − 4   dv;  dx = dy1 + dv·Wv;  gradient of Wv
//
// Threads take bands of rows and compute the four rows beyond their band's ends twice; only gradients of weights are
// counted in one band. Nothing but x, dy, dx is larger than a few rows: at 256×256 and 24 channels the two rings take 250
// KB, where PyTorch's autograd keeps 50 MB per block.
//
// Scratch per part: 13 rows of tokens, two tiles of hidden activations, one copy of the weight gradients.
#include "kernels/training_tiles.h"

namespace smf {
namespace SMF_ISA {
namespace {

struct PackedConvBlock {
  PackedLinear v, proj;
  PackedMlp mlp;
  const float *v_b, *proj_b, *conv_b;
  float *taps, *flipped_taps;

  static std::size_t bytes(int channels, int hidden) {
    return 2 * PackedLinear::bytes(channels, channels) + PackedMlp::bytes(channels, hidden) +
           2 * Arena::bytes(std::size_t(kTaps) * channels);
  }
  PackedConvBlock(Arena& arena, const ConvBlockTensors<const float>& weights, int channels, int hidden)
      : v_b(weights.v_b), proj_b(weights.proj_b), conv_b(weights.conv_b) {
    v.pack(arena, weights.v_w, channels, channels);
    proj.pack(arena, weights.proj_w, channels, channels);
    mlp.pack(arena, weights.mlp, channels, hidden);
    taps = arena.floats(std::size_t(kTaps) * channels);
    flipped_taps = arena.floats(std::size_t(kTaps) * channels);
    pack_taps(weights.conv_w, channels, false, taps);
    pack_taps(weights.conv_w, channels, true, flipped_taps);
  }
};

// Five rows of tokens, each with two zero pixels at either end; rows outside the picture are zero.
class Ring {
 public:
  static long floats(int width, int channels) { return 6L * (width + 4) * channels; }
  Ring(float* memory, int width, int channels, int height)
      : memory_(memory), row_(long(width + 4) * channels), margin_(2L * channels), height_(height) {
    std::memset(memory, 0, floats(width, channels) * sizeof(float));
  }
  // The first pixel of row y.
  float* row(int y) const { return memory_ + y % 5 * row_ + margin_; }
  // Rows y − 2 … y + 2, each from two pixels left of the first.
  void around(int y, const float* rows[5]) const {
    for (int i = 0; i < 5; ++i) {
      const int at = y + i - 2;
      rows[i] = at < 0 || at >= height_ ? memory_ + 5 * row_ : memory_ + at % 5 * row_;
    }
  }

 private:
  float* memory_;
  long row_, margin_;
  int height_;
};

void linear_row(const PackedLinear& linear, const float* bias, const float* init, int tokens, const float* x, float* y) {
  Terms terms{};
  terms.bias = bias;
  terms.init = init;
  terms.init_row = linear.out;
  gemm(tokens, linear.out, linear.in, x, linear.in, packed(linear.forward, linear.in), y, linear.out, terms);
}

void forward_band(const TokenShape& shape, int first, int last, const PackedConvBlock& block, const float* x, float* y,
                  float* scratch) {
  const int width = shape.width, channels = shape.channels;
  const long row = long(width) * channels;
  Slices slices(scratch);
  Ring v(slices.take(Ring::floats(width, channels)), width, channels, shape.height);
  float* u = slices.take(row);
  float* y1 = slices.take(row);
  float* h = slices.take(tile_tokens(block.mlp.hidden) * padded_row(block.mlp.hidden));
  for (int at = std::max(first - 2, 0); at < last + 2; ++at) {
    if (at < shape.height) linear_row(block.v, block.v_b, nullptr, width, x + at * row, v.row(at));
    const int out = at - 2;
    if (out < first) continue;
    const float* rows[5];
    v.around(out, rows);
    convolve_row(rows, block.taps, block.conv_b, channels, width, u, channels);
    linear_row(block.proj, block.proj_b, x + out * row, width, u, y1);
    const int step = even_tile(width, block.mlp.hidden);
    for (int t = 0; t < width; t += step)
      mlp_forward(block.mlp, std::min(step, width - t), y1 + long(t) * channels, channels, h,
                  y + out * row + long(t) * channels, channels);
  }
}

long forward_scratch(const TokenShape& shape, int hidden) {
  const long row = long(shape.width) * shape.channels;
  Slices slices(nullptr);
  slices.take(Ring::floats(shape.width, shape.channels));
  slices.take(row);
  slices.take(row);
  slices.take(tile_tokens(hidden) * padded_row(hidden));
  return slices.used();
}

void forward(const TokenShape& shape, int hidden, const float* x, const ConvBlockTensors<const float>& weights,
             float* y) {
  const int parts = std::min(num_threads(), shape.batch * shape.height);
  const long scratch = forward_scratch(shape, hidden);
  ArenaLease lease(shared_arenas(),
                   PackedConvBlock::bytes(shape.channels, hidden) + Arena::bytes(std::size_t(parts) * scratch));
  const PackedConvBlock block(lease.arena(), weights, shape.channels, hidden);
  float* memory = lease.arena().floats(std::size_t(parts) * scratch);
  const long sample_size = long(shape.height) * shape.width * shape.channels;
  parallel(parts, parts, [&](int part, int) {
    for_rows_of_part(shape, part, parts, [&](int sample, int first, int last) {
      forward_band(shape, first, last, block, x + sample * sample_size, y + sample * sample_size,
                   memory + part * scratch);
    });
  });
}

struct BackwardScratch {
  float *v, *du, *dy1, *u, *y1, *dv, *h, *dh;
  long used;

  BackwardScratch(float* memory, const TokenShape& shape, int hidden) {
    const long row = long(shape.width) * shape.channels;
    Slices slices(memory);
    v = slices.take(Ring::floats(shape.width, shape.channels));
    du = slices.take(Ring::floats(shape.width, shape.channels));
    dy1 = slices.take(3 * row);
    u = slices.take(row);
    y1 = slices.take(row);
    dv = slices.take(row);
    h = slices.take(tile_tokens(hidden) * padded_row(hidden));
    dh = slices.take(tile_tokens(hidden) * padded_row(hidden));
    used = slices.used();
  }
};

// Weight gradients of one part; conv_w is (25, channels) here.
ConvBlockTensors<float> take_gradients(Slices& slices, int channels, int hidden) {
  const long square = long(channels) * channels;
  ConvBlockTensors<float> g;
  g.v_w = slices.take(square);
  g.v_b = slices.take(channels);
  g.conv_w = slices.take(long(kTaps) * channels);
  g.conv_b = slices.take(channels);
  g.proj_w = slices.take(square);
  g.proj_b = slices.take(channels);
  g.mlp = take_mlp(slices, channels, hidden);
  return g;
}

void backward_band(const TokenShape& shape, int first, int last, const PackedConvBlock& block, const float* x,
                   const float* dy, float* dx, const BackwardScratch& s, const ConvBlockTensors<float>& g) {
  const int width = shape.width, channels = shape.channels, height = shape.height;
  const long row = long(width) * channels;
  const Ring v(s.v, width, channels, height), du(s.du, width, channels, height);
  const int step = even_tile(width, block.mlp.hidden);
  const float* rows[5];
  for (int at = std::max(first - 4, 0); at < last + 4; ++at) {
    if (at < height) linear_row(block.v, block.v_b, nullptr, width, x + at * row, v.row(at));

    const int middle = at - 2;
    if (middle >= std::max(first - 2, 0) && middle < std::min(last + 2, height)) {
      const bool own = middle >= first && middle < last;
      float* dy1 = s.dy1 + middle % 3 * row;
      v.around(middle, rows);
      convolve_row(rows, block.taps, block.conv_b, channels, width, s.u, channels);
      linear_row(block.proj, block.proj_b, x + middle * row, width, s.u, s.y1);
      for (int t = 0; t < width; t += step) {
        const long offset = long(t) * channels;
        mlp_backward(block.mlp, std::min(step, width - t), s.y1 + offset, channels, dy + middle * row + offset,
                     channels, s.h, s.dh, dy1 + offset, channels, own ? &g.mlp : nullptr);
      }
      gemm(width, channels, channels, dy1, channels, packed(block.proj.backward, channels), du.row(middle), channels);
      if (own) {
        add_weight_gradient(channels, channels, width, dy1, channels, s.u, channels, g.proj_w);
        add_column_sums(channels, width, dy1, channels, g.proj_b);
        add_tap_gradient(rows, du.row(middle), channels, channels, width, g.conv_w);
        add_column_sums(channels, width, du.row(middle), channels, g.conv_b);
      }
    }

    const int out = at - 4;
    if (out >= first && out < last) {
      du.around(out, rows);
      convolve_row(rows, block.flipped_taps, nullptr, channels, width, s.dv, channels);
      Terms residual{};
      residual.init = s.dy1 + out % 3 * row;
      residual.init_row = channels;
      gemm(width, channels, channels, s.dv, channels, packed(block.v.backward, channels), dx + out * row, channels,
           residual);
      add_weight_gradient(channels, channels, width, s.dv, channels, x + out * row, channels, g.v_w);
      add_column_sums(channels, width, s.dv, channels, g.v_b);
    }
  }
}

void backward(const TokenShape& shape, int hidden, const float* x, const float* dy,
              const ConvBlockTensors<const float>& weights, float* dx, const ConvBlockTensors<float>& gradients) {
  const int channels = shape.channels;
  const int parts = std::min(num_threads(), shape.batch * shape.height);
  const long scratch = BackwardScratch(nullptr, shape, hidden).used;
  Slices counted(nullptr);
  take_gradients(counted, channels, hidden);
  const long stride = counted.used();
  ArenaLease lease(shared_arenas(), PackedConvBlock::bytes(channels, hidden) +
                                        Arena::bytes(std::size_t(parts) * scratch) +
                                        Arena::bytes(std::size_t(parts) * stride));
  const PackedConvBlock block(lease.arena(), weights, channels, hidden);
  float* memory = lease.arena().floats(std::size_t(parts) * scratch);
  float* sums = lease.arena().floats(std::size_t(parts) * stride);
  const long sample_size = long(shape.height) * shape.width * channels;
  parallel(parts, parts, [&](int part, int) {
    std::memset(sums + part * stride, 0, stride * sizeof(float));
    Slices slices(sums + part * stride);
    const ConvBlockTensors<float> g = take_gradients(slices, channels, hidden);
    const BackwardScratch s(memory + part * scratch, shape, hidden);
    for_rows_of_part(shape, part, parts, [&](int sample, int first, int last) {
      const long at = sample * sample_size;
      backward_band(shape, first, last, block, x + at, dy + at, dx + at, s, g);
    });
  });

  Slices slices(sums);
  const ConvBlockTensors<float> g = take_gradients(slices, channels, hidden);
  const long square = long(channels) * channels;
  sum_parts(g.v_w, stride, parts, square, gradients.v_w);
  sum_parts(g.v_b, stride, parts, channels, gradients.v_b);
  sum_parts(g.conv_b, stride, parts, channels, gradients.conv_b);
  sum_parts(g.proj_w, stride, parts, square, gradients.proj_w);
  sum_parts(g.proj_b, stride, parts, channels, gradients.proj_b);
  sum_mlp(g.mlp, stride, parts, channels, hidden, gradients.mlp);
  float* taps = memory;  // free by now
  sum_parts(g.conv_w, stride, parts, long(kTaps) * channels, taps);
  unpack_taps(taps, channels, gradients.conv_w);
}

}  // namespace

extern const ConvBlockForward conv_block_training_forward;
extern const ConvBlockBackward conv_block_backward;
const ConvBlockForward conv_block_training_forward = forward;
const ConvBlockBackward conv_block_backward = backward;

}  // namespace SMF_ISA
}  // namespace smf
