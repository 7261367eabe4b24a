// Gradients of the convolution block, recomputed from its input.
//
//   v = x·Wvᵀ + bv,  u = dw5×5(v) + bc,  y1 = x + u·Wpᵀ + bp,  y = y1 + mlp(y1)
//
// One pass over the rows of a picture. Rows of v that the convolution still needs wait in a ring of five, and rows of du
// in a second ring two rows behind, because dv is the convolution of du with the kernel turned round:
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
#include "kernels/backward.h"

namespace smf {
namespace SMF_ISA {
namespace {

// Five rows of tokens, each with two zero pixels at either end; rows outside the picture are zero.
class Ring {
 public:
  static long floats(int width, int channels) { return 6L * (width + 4) * channels; }
  Ring(float* memory, int width, int channels, int height)
      : memory_(memory), row_(long(width + 4) * channels), margin_(2L * channels), height_(height) {
    zero(memory, floats(width, channels));
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

struct Scratch {
  float *v, *du, *dy1, *u, *y1, *dv, *h, *dh;
  std::size_t used;

  Scratch(float* memory, const TokenShape& shape, int hidden) {
    const long row = long(shape.width) * shape.channels;
    Slices slices(memory);
    v = slices.take(Ring::floats(shape.width, shape.channels));
    du = slices.take(Ring::floats(shape.width, shape.channels));
    dy1 = slices.take(3 * row);
    u = slices.take(row);
    y1 = slices.take(row);
    dv = slices.take(row);
    h = slices.take(hidden_floats(hidden));
    dh = slices.take(hidden_floats(hidden));
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

void backward_band(const TokenShape& shape, int first, int last, const ConvBlock& block, const ConvBlock& transposed,
                   const float* x, const float* dy, float* dx, const Scratch& s, const ConvBlockTensors<float>& g) {
  const int width = shape.width, C = shape.channels, height = shape.height;
  const long row = long(width) * C;
  const Ring v(s.v, width, C, height), du(s.du, width, C, height);
  const float* rows[5];
  for (int at = larger(first - 4, 0); at < last + 4; ++at) {
    if (at < height) linear(width, x + at * row, C, block.v, v.row(at), C);

    const int middle = at - 2;
    if (middle >= larger(first - 2, 0) && middle < smaller(last + 2, height)) {
      const bool own = middle >= first && middle < last;
      float* dy1 = s.dy1 + middle % 3 * row;
      v.around(middle, rows);
      depthwise_row(rows, width, C, block.conv, s.u);
      linear(width, s.u, C, block.proj, s.y1, C, x + middle * row, C);
      mlp_backward(block.mlp, transposed.mlp, width, s.y1, dy + middle * row, s.h, s.dh, dy1, own ? &g.mlp : nullptr);
      linear(width, dy1, C, transposed.proj, du.row(middle), C);
      if (own) {
        add_weight_gradient(C, C, width, dy1, C, s.u, C, g.proj_w);
        add_column_sums(C, width, dy1, C, g.proj_b);
        add_tap_gradient(rows, du.row(middle), C, width, g.conv_w);
        add_column_sums(C, width, du.row(middle), C, g.conv_b);
      }
    }

    const int out = at - 4;
    if (out >= first && out < last) {
      du.around(out, rows);
      depthwise_row(rows, width, C, transposed.conv, s.dv);
      linear(width, s.dv, C, transposed.v, dx + out * row, C, s.dy1 + out % 3 * row, C);
      add_weight_gradient(C, C, width, s.dv, C, x + out * row, C, g.v_w);
      add_column_sums(C, width, s.dv, C, g.v_b);
    }
  }
}

}  // namespace

void conv_block_backward(const TokenShape& shape, int hidden, const float* x, const float* dy,
                         const ConvBlockTensors<const float>& weights, float* dx,
                         const ConvBlockTensors<float>& gradients) {
  const int channels = shape.channels;
  const int parts = smaller(num_threads(), shape.batch * shape.height);
  const std::size_t scratch = Scratch(nullptr, shape, hidden).used;
  Slices counted(nullptr);
  take_gradients(counted, channels, hidden);
  const std::size_t stride = counted.used();
  ArenaLease lease(shared_arenas(), 2 * Packer::conv_block_bytes(channels, hidden) + Arena::bytes(parts * scratch) +
                                        Arena::bytes(parts * stride));
  Packer packer(lease.arena(), pack);
  const ConvBlock block = packer.conv_block(channels, hidden, weights);
  const ConvBlock transposed = packer.transposed(channels, hidden, weights);
  float* memory = lease.arena().floats(parts * scratch);
  float* sums = lease.arena().floats(parts * stride);
  const long sample_size = long(shape.height) * shape.width * channels;
  parallel(parts, parts, [&](int part, int) {
    zero(sums + part * stride, stride);
    Slices slices(sums + part * stride);
    const ConvBlockTensors<float> g = take_gradients(slices, channels, hidden);
    const Scratch s(memory + part * scratch, shape, hidden);
    for_rows_of_part(shape, part, parts, [&](int sample, int first, int last) {
      const long at = sample * sample_size;
      backward_band(shape, first, last, block, transposed, x + at, dy + at, dx + at, s, g);
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
  sum_parts(g.conv_w, stride, parts, long(kTaps) * channels, g.conv_w);
  unpack_taps(g.conv_w, channels, gradients.conv_w);
}

}  // namespace SMF_ISA
}  // namespace smf
