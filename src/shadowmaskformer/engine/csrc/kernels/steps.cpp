// The steps of a convolutional network: dense and depthwise convolutions, sums, enlargement (see core/steps.h).
//
// Threads    Runs of tokens, rows, or bands of rows are the tasks. The cut does not depend on the number of threads:
//            any number gives the same bits.
// Fusion     A depthwise convolution walks down its rows. It keeps the rows that it sees in a ring, with zeros at both
//            ends; they are copied from its input, or made from it by the 1x1 convolution `expand`. Each row of its
//            result passes through the 1x1 convolution `project` while it is in cache. So the wide maps in the middle of
//            an inverted bottleneck, the largest of the network, need not reach memory.
// Scratch    per thread: dense, `side` rows; depthwise, `side` rows and one of results; enlargement, one row.
#include "core/steps.h"

#include "core/threads.h"
#include "kernels/depthwise.h"
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {
namespace {

// Zeros above and left of a map.
SMF_INLINE int zeros_before(int side, int stride) { return (side - stride) / 2; }

#if defined(SMF_ISA_scalar)

float clip(float value) { return value > 6 ? 6 : value > 0 ? value : 0; }

std::size_t dense_scratch(const DenseConvolution&, const MapShape&, int) { return 0; }

void dense(const DenseConvolution& conv, const MapShape& in, const float* x, const Addend& add, float* out, Arena&,
           int) {
  const Matrix& m = conv.weight;
  const int before = zeros_before(conv.side, conv.stride);
  for (int row = 0; row < in.height / conv.stride; ++row)
    for (int column = 0; column < in.width / conv.stride; ++column) {
      const long token = long(row) * (in.width / conv.stride) + column;
      for (int n = 0; n < m.outputs; ++n) {
        float total = m.bias[n] + (add.tokens ? add.tokens[token * add.row + n] : 0);
        for (int dy = 0; dy < conv.side; ++dy)
          for (int dx = 0; dx < conv.side; ++dx) {
            const int y = row * conv.stride + dy - before, z = column * conv.stride + dx - before;
            if (y < 0 || y >= in.height || z < 0 || z >= in.width) continue;
            for (int c = 0; c < in.channels; ++c)
              total += m.packed[long(n) * m.inputs + (dy * conv.side + dx) * in.channels + c] *
                       x[(long(y) * in.width + z) * in.channels + c];
          }
        out[token * m.outputs + n] = conv.clipped ? clip(total) : total;
      }
    }
}

std::size_t separable_scratch(const SeparableConvolution& conv, const MapShape& in, int) {
  const std::size_t map = std::size_t(in.height) * in.width * conv.channels;
  return Arena::bytes(map) + Arena::bytes(map / (conv.stride * conv.stride));
}

void separable(const SeparableConvolution& conv, const MapShape& in, const float* x, const Addend& add, float* out,
               Arena& arena, int threads) {
  const int C = conv.channels, height = in.height / conv.stride, width = in.width / conv.stride;
  const int before = zeros_before(conv.side, conv.stride);
  const std::size_t position = arena.used();
  float* wide = arena.floats(std::size_t(in.height) * in.width * C);
  float* mixed = arena.floats(std::size_t(height) * width * C);
  if (conv.expand)
    dense(*conv.expand, in, x, {}, wide, arena, threads);
  else
    copy(wide, x, std::size_t(in.height) * in.width * C);
  if (!conv.project) mixed = out;
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      for (int c = 0; c < C; ++c) {
        float total = conv.taps.bias[c];
        for (int dy = 0; dy < conv.side; ++dy)
          for (int dx = 0; dx < conv.side; ++dx) {
            const int y = row * conv.stride + dy - before, z = column * conv.stride + dx - before;
            if (y >= 0 && y < in.height && z >= 0 && z < in.width)
              total += conv.taps.weight[(dy * conv.side + dx) * C + c] * wide[(long(y) * in.width + z) * C + c];
          }
        mixed[(long(row) * width + column) * C + c] = conv.clipped ? clip(total) : total;
      }
  if (conv.project) dense(*conv.project, {height, width, C}, mixed, add, out, arena, threads);
  arena.rewind(position);
}

void add_map(const MapShape& in, const float* x, const Addend& add, float* out, int) {
  for (long token = 0; token < long(in.height) * in.width; ++token)
    for (int c = 0; c < in.channels; ++c)
      out[token * in.channels + c] = x[token * in.channels + c] + add.tokens[token * add.row + c];
}

std::size_t enlarge_scratch(const MapShape&, int) { return 0; }

void enlarge(const MapShape& in, const float* x, float* out, Arena&, int) {
  // The nearer of the two pixels counts three times.
  const auto near = [](int at) { return at / 2; };
  const auto far = [](int at, int end) { return smaller(larger(at / 2 + (at % 2 ? 1 : -1), 0), end - 1); };
  for (int row = 0; row < 2 * in.height; ++row)
    for (int column = 0; column < 2 * in.width; ++column)
      for (int c = 0; c < in.channels; ++c) {
        const auto pixel = [&](int y, int z) { return x[(long(y) * in.width + z) * in.channels + c]; };
        const int y = far(row, in.height), z = far(column, in.width);
        out[(long(row) * 2 * in.width + column) * in.channels + c] =
            0.75f * (0.75f * pixel(near(row), near(column)) + 0.25f * pixel(near(row), z)) +
            0.25f * (0.75f * pixel(y, near(column)) + 0.25f * pixel(y, z));
      }
}

#else

constexpr int kRun = 64;  // tokens of a product: its inputs and outputs stay near

// Output rows of a task of a depthwise convolution. With `expand` the rows that two bands see are computed twice, so
// bands are higher.
constexpr int kBand = 4, kExpandingBand = 16;

// What the sums of a product start with, from `token` on.
SMF_INLINE Terms terms_of(const Matrix& m, const Addend& add, long token) {
  return {m.bias, add.tokens ? add.tokens + token * add.row : nullptr, add.row};
}

// out = convolution of 1x1 of `tokens` tokens, the first of which is `token` of the map.
SMF_INLINE void pointwise(const DenseConvolution& conv, long token, int tokens, const float* x, const Addend& add,
                          float* out) {
  const Matrix& m = conv.weight;
  if (conv.clipped)
    gemm<Finish::relu6>(tokens, m.outputs, m.inputs, x, m.inputs, packed(m), terms_of(m, add, token), out, m.outputs);
  else
    gemm<Finish::plain>(tokens, m.outputs, m.inputs, x, m.inputs, packed(m), terms_of(m, add, token), out, m.outputs);
}

// Floats of a row with its zeros at both ends.
SMF_INLINE long line_floats(int width, int channels, int side, int stride) {
  return long(width + side - stride) * channels;
}

// --- dense -----------------------------------------------------------------------------------------------------------

std::size_t dense_floats(const DenseConvolution& conv, const MapShape& in) {
  return conv.side == 1 ? 0 : std::size_t(conv.side) * line_floats(in.width, in.channels, conv.side, conv.stride);
}

std::size_t dense_scratch(const DenseConvolution& conv, const MapShape& in, int threads) {
  return Arena::bytes(threads * Arena::slice(dense_floats(conv, in)));
}

void dense(const DenseConvolution& conv, const MapShape& in, const float* x, const Addend& add, float* out,
           Arena& arena, int threads) {
  const Matrix& m = conv.weight;
  if (conv.side == 1) {
    const long tokens = long(in.height) * in.width;
    parallel(threads, int((tokens + kRun - 1) / kRun), [&](int run, int) {
      const long first = long(run) * kRun;
      const int count = int(smaller<long>(tokens - first, kRun));
      pointwise(conv, first, count, x + first * m.inputs, add, out + first * m.outputs);
    });
    return;
  }
  const int height = in.height / conv.stride, width = in.width / conv.stride;
  const int before = zeros_before(conv.side, conv.stride), steps = conv.side * in.channels, last = conv.side - 1;
  const long line = line_floats(in.width, in.channels, conv.side, conv.stride), next = long(conv.stride) * in.channels;
  const std::size_t position = arena.used(), slice = Arena::slice(dense_floats(conv, in));
  float* scratch = arena.floats(slice * threads);
  parallel(threads, height, [&](int row, int worker) {
    float* lines = scratch + worker * slice;
    zero(lines, conv.side * line);
    for (int dy = 0; dy < conv.side; ++dy) {
      const int y = row * conv.stride + dy - before;
      if (y >= 0 && y < in.height)
        copy(lines + dy * line + before * in.channels, x + long(y) * in.width * in.channels,
             std::size_t(in.width) * in.channels);
    }
    for (int column = 0; column < width; column += kRun) {
      const int tokens = smaller(width - column, kRun);
      const long token = long(row) * width + column;
      float* to = out + token * m.outputs;
      // Added up row by row of the kernel: the first starts with the bias, the others with what is there.
      for (int dy = 0; dy <= last; ++dy) {
        const float* from = lines + dy * line + column * next;
        const Terms terms = dy == 0 ? terms_of(m, add, token) : Terms{nullptr, to, m.outputs};
        if (dy == last && conv.clipped)
          gemm<Finish::relu6>(tokens, m.outputs, steps, from, next, packed(m, dy * steps), terms, to, m.outputs);
        else
          gemm<Finish::plain>(tokens, m.outputs, steps, from, next, packed(m, dy * steps), terms, to, m.outputs);
      }
    }
  });
  arena.rewind(position);
}

// --- depthwise -------------------------------------------------------------------------------------------------------

// One thread's scratch.
struct Scratch {
  float* ring;   // the last rows of the depthwise convolution's input: row r is at (r mod side)
  float* mixed;  // one row of its result
  std::size_t used;

  Scratch(const SeparableConvolution& conv, int width, float* memory) {
    Slices slices(memory);
    ring = slices.take(conv.side * line_floats(width, conv.channels, conv.side, conv.stride));
    mixed = slices.take(conv.project ? std::size_t(width / conv.stride) * conv.channels : 0);
    used = slices.used();
  }
};

std::size_t separable_scratch(const SeparableConvolution& conv, const MapShape& in, int threads) {
  return Arena::bytes(threads * Arena::slice(Scratch(conv, in.width, nullptr).used));
}

template <int kSide, int kStride>
void separable_of(const SeparableConvolution& conv, const MapShape& in, const float* x, const Addend& add, float* out,
                  Arena& arena, int threads) {
  constexpr int kBefore = (kSide - kStride) / 2;
  const int C = conv.channels, height = in.height / kStride, width = in.width / kStride;
  const int outputs = conv.project ? conv.project->weight.outputs : C;
  const int band = conv.expand ? kExpandingBand : kBand;
  const long line = line_floats(in.width, C, kSide, kStride);
  const std::size_t position = arena.used(), slice = Arena::slice(Scratch(conv, in.width, nullptr).used);
  float* scratch = arena.floats(slice * threads);
  parallel(threads, (height + band - 1) / band, [&](int task, int worker) {
    const int first = task * band, end = smaller(first + band, height);
    const Scratch s(conv, in.width, scratch + worker * slice);
    zero(s.ring, kSide * line);  // both ends of the rows stay zero
    const auto line_of = [&](int row) { return s.ring + (row + kSide) % kSide * line; };
    const auto fetch = [&](int row) {
      float* to = line_of(row) + kBefore * C;
      const float* from = x + long(row) * in.width * in.channels;
      if (row < 0 || row >= in.height)
        zero(to, std::size_t(in.width) * C);
      else if (conv.expand)
        pointwise(*conv.expand, 0, in.width, from, {}, to);
      else
        copy(to, from, std::size_t(in.width) * C);
    };
    int next = first * kStride - kBefore;  // row to fetch
    for (int row = first; row < end; ++row) {
      const int top = row * kStride - kBefore;
      for (; next < top + kSide; ++next) fetch(next);
      const float* rows[kSide];
      for (int dy = 0; dy < kSide; ++dy) rows[dy] = line_of(top + dy);
      const long token = long(row) * width;
      float* to = out + token * outputs;
      depthwise_row<kSide, kStride>(rows, width, C, conv.taps, conv.project ? s.mixed : to, conv.clipped);
      if (conv.project) pointwise(*conv.project, token, width, s.mixed, add, to);
    }
  });
  arena.rewind(position);
}

void separable(const SeparableConvolution& conv, const MapShape& in, const float* x, const Addend& add, float* out,
               Arena& arena, int threads) {
  const auto run = conv.stride == 1 ? (conv.side == 3   ? separable_of<3, 1>
                                       : conv.side == 5 ? separable_of<5, 1>
                                                        : separable_of<7, 1>)
                                    : (conv.side == 3   ? separable_of<3, 2>
                                       : conv.side == 5 ? separable_of<5, 2>
                                                        : separable_of<7, 2>);
  run(conv, in, x, add, out, arena, threads);
}

// --- sums and enlargement --------------------------------------------------------------------------------------------

void add_map(const MapShape& in, const float* x, const Addend& add, float* out, int threads) {
  const int C = in.channels;
  parallel(threads, in.height, [&](int row, int) {
    for (long token = long(row) * in.width; token < long(row + 1) * in.width; ++token)
      for (int c = 0; c < C; c += 8)
        store<8>(out + token * C + c, load<8>(x + token * C + c) + load<8>(add.tokens + token * add.row + c));
  });
}

std::size_t enlarge_scratch(const MapShape& in, int threads) {
  return Arena::bytes(threads * Arena::slice(std::size_t(in.width) * in.channels));
}

// Between two pixels, the first of which is three times as near.
SMF_INLINE Vec<8> between(const float* near, const float* far) { return 0.75f * load<8>(near) + 0.25f * load<8>(far); }

void enlarge(const MapShape& in, const float* x, float* out, Arena& arena, int threads) {
  const int C = in.channels;
  const long line = long(in.width) * C;
  const std::size_t position = arena.used(), slice = Arena::slice(line);
  float* scratch = arena.floats(slice * threads);
  parallel(threads, 2 * in.height, [&](int row, int worker) {
    float* mixed = scratch + worker * slice;
    const int near = row / 2, far = smaller(larger(near + (row % 2 ? 1 : -1), 0), in.height - 1);
    for (long i = 0; i < line; i += 8) store<8>(mixed + i, between(x + near * line + i, x + far * line + i));
    float* to = out + row * 2 * line;
    for (int column = 0; column < in.width; ++column, to += 2 * C) {
      const float* here = mixed + long(column) * C;
      const float* left = column > 0 ? here - C : here;
      const float* right = column + 1 < in.width ? here + C : here;
      for (int c = 0; c < C; c += 8) {
        store<8>(to + c, between(here + c, left + c));
        store<8>(to + C + c, between(here + c, right + c));
      }
    }
  });
  arena.rewind(position);
}

#endif

}  // namespace

extern const StepKernels step_kernels = {dense_scratch, dense,           separable_scratch, separable,
                                         add_map,       enlarge_scratch, enlarge};

}  // namespace SMF_ISA
}  // namespace smf
