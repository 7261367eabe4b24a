// What joins the stages of the U: 3x3 convolutions at both ends, down- and upsampling, fusion with the skip.
//
// Layout     maps (H, W, C), channels last, so a 3x3 or 2x2 convolution is three or two matrix products whose inputs
//            already lie in a row: no im2col.
// Threads    Rows (or runs of tokens) are the tasks.
// Scratch    3x3: three rows with a zero column at each end per thread. Fusion: one run of tokens per thread.
#include "core/threads.h"
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {
namespace {

constexpr int kRun = 64;     // tokens of a product: its inputs and outputs stay in the first-level cache
constexpr int kParts = 64;   // parts that a sum over all tokens is cut into, whatever the threads

std::size_t conv3x3_floats(const Matrix& m, int out_width) {
  return 3 * (std::size_t(out_width) + 2) * (m.inputs / 9) + std::size_t(kRun) * m.outputs;
}

std::size_t conv3x3_scratch(const Matrix& m, int out_width, int threads) {
  return Arena::bytes(threads * Arena::slice(conv3x3_floats(m, out_width)));
}

std::size_t channel_sums_scratch(int channels) { return Arena::bytes(std::size_t(kParts) * channels * 2); }

std::size_t fuse_scratch(int channels, int threads) {
  return Arena::bytes(threads * Arena::slice(std::size_t(kRun) * channels));
}

#if defined(SMF_ISA_scalar)

void conv3x3(const Matrix& m, int height, int width, int channels, const float* x, int out_height, int out_width,
             int outputs, float* out, Arena&, int) {
  for (int row = 0; row < out_height; ++row)
    for (int column = 0; column < out_width; ++column)
      for (int n = 0; n < outputs; ++n) {
        float total = m.bias[n];
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx)
            if (row + dy >= 0 && row + dy < height && column + dx >= 0 && column + dx < width)
              for (int c = 0; c < channels; ++c)
                total += m.packed[long(n) * m.inputs + ((dy + 1) * 3 + dx + 1) * channels + c] *
                         x[((long(row) + dy) * width + column + dx) * channels + c];
        out[(long(row) * out_width + column) * outputs + n] = total;
      }
}

void downsample(const Matrix& m, int height, int width, int channels, const float* x, float* out, int) {
  for (int row = 0; row < height / 2; ++row)
    for (int column = 0; column < width / 2; ++column)
      for (int n = 0; n < m.outputs; ++n) {
        float total = m.bias[n];
        for (int dy = 0; dy < 2; ++dy)
          for (int i = 0; i < 2 * channels; ++i)
            total += m.packed[long(n) * m.inputs + dy * 2 * channels + i] *
                     x[((long(row) * 2 + dy) * width + column * 2) * channels + i];
        out[(long(row) * (width / 2) + column) * m.outputs + n] = total;
      }
}

void upsample(const Matrix rows[2], int height, int width, int channels, const float* x, float* out, int) {
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column)
      for (int dy = 0; dy < 2; ++dy)
        for (int n = 0; n < rows[dy].outputs; ++n) {
          float total = rows[dy].bias[n];
          for (int k = 0; k < channels; ++k)
            total += rows[dy].packed[long(n) * channels + k] * x[(long(row) * width + column) * channels + k];
          out[((long(row) * 2 + dy) * width + column) * rows[dy].outputs + n] = total;
        }
}

void channel_sums(std::size_t tokens, int channels, const float* x, double* sums, Arena&, int) {
  for (int c = 0; c < channels; ++c) {
    sums[c] = 0;
    for (std::size_t t = 0; t < tokens; ++t) sums[c] += x[t * channels + c];
  }
}

void fuse(const Matrix& skip, std::size_t tokens, const float* encoder, const float* gain_x, const float* gain_skip,
          float* x, Arena&, int) {
  const int C = skip.outputs;
  for (std::size_t t = 0; t < tokens; ++t)
    for (int n = 0; n < C; ++n) {
      float total = skip.bias[n];
      for (int k = 0; k < C; ++k) total += skip.packed[long(n) * C + k] * encoder[t * C + k];
      x[t * C + n] = gain_x[n] * x[t * C + n] + gain_skip[n] * total;
    }
}

#else

// First token of part `index` of kParts.
std::size_t part_start(std::size_t tokens, int index) { return tokens * index / kParts; }

// A convolution's product is added up row by row of its kernel: the first row starts with the bias, the others with what
// is there.
Terms started(const Matrix& m, int kernel_row, const float* result) {
  return kernel_row == 0 ? Terms{m.bias} : Terms{nullptr, result, m.outputs};
}

void conv3x3(const Matrix& m, int height, int width, int channels, const float* x, int out_height, int out_width,
             int outputs, float* out, Arena& arena, int threads) {
  const std::size_t position = arena.used();
  const std::size_t stride = Arena::slice(conv3x3_floats(m, out_width));
  float* scratch = arena.floats(stride * threads);
  const long line = long(out_width + 2) * channels;
  const int inside = smaller(width, out_width + 1);  // columns that any output sees
  parallel(threads, out_height, [&](int row, int worker) {
    float* lines = scratch + worker * stride;
    float* result = lines + 3 * line;
    zero(lines, 3 * line);
    for (int dy = 0; dy < 3; ++dy)
      if (row + dy - 1 >= 0 && row + dy - 1 < height)
        copy(lines + dy * line + channels, x + (long(row) + dy - 1) * width * channels, std::size_t(inside) * channels);
    for (int column = 0; column < out_width; column += kRun) {
      const int tokens = smaller(out_width - column, kRun);
      for (int dy = 0; dy < 3; ++dy)
        gemm<Finish::plain>(tokens, m.outputs, 3 * channels, lines + dy * line + long(column) * channels, channels,
                            packed(m, dy * 3 * channels), started(m, dy, result), result, m.outputs);
      float* to = out + (long(row) * out_width + column) * outputs;
      for (int t = 0; t < tokens; ++t) copy(to + long(t) * outputs, result + long(t) * m.outputs, outputs);
    }
  });
  arena.rewind(position);
}

void downsample(const Matrix& m, int height, int width, int channels, const float* x, float* out, int threads) {
  const int half = width / 2, pair = 2 * channels;
  parallel(threads, height / 2, [&](int row, int) {
    for (int column = 0; column < half; column += kRun) {
      const int tokens = smaller(half - column, kRun);
      float* to = out + (long(row) * half + column) * m.outputs;
      for (int dy = 0; dy < 2; ++dy)
        gemm<Finish::plain>(tokens, m.outputs, pair, x + ((long(row) * 2 + dy) * width + column * 2) * channels, pair,
                            packed(m, dy * pair), started(m, dy, to), to, m.outputs);
    }
  });
}

void upsample(const Matrix rows[2], int height, int width, int channels, const float* x, float* out, int threads) {
  parallel(threads, height, [&](int row, int) {
    for (int column = 0; column < width; column += kRun) {
      const int tokens = smaller(width - column, kRun);
      for (int dy = 0; dy < 2; ++dy)
        linear(tokens, x + (long(row) * width + column) * channels, channels, rows[dy],
               out + ((long(row) * 2 + dy) * width + column) * rows[dy].outputs, rows[dy].outputs);
    }
  });
}

void channel_sums(std::size_t tokens, int channels, const float* x, double* sums, Arena& arena, int threads) {
  const std::size_t position = arena.used();
  double* parts = reinterpret_cast<double*>(arena.floats(std::size_t(kParts) * channels * 2));
  parallel(threads, kParts, [&](int part, int) {
    double* total = parts + std::size_t(part) * channels;
    const std::size_t begin = part_start(tokens, part), end = part_start(tokens, part + 1);
    for (int c = 0; c < channels; c += 8) {
      double sum[8] = {};
      for (std::size_t run = begin; run < end; run += kRun) {  // runs are short enough for sums in float
        Vec<8> here = {};
        for (std::size_t t = run; t < end && t < run + kRun; ++t) here += load<8>(x + t * channels + c);
        for (int i = 0; i < 8; ++i) sum[i] += here[i];
      }
      for (int i = 0; i < 8; ++i) total[c + i] = sum[i];
    }
  });
  for (int c = 0; c < channels; ++c) {
    sums[c] = 0;
    for (int part = 0; part < kParts; ++part) sums[c] += parts[std::size_t(part) * channels + c];
  }
  arena.rewind(position);
}

void fuse(const Matrix& skip, std::size_t tokens, const float* encoder, const float* gain_x, const float* gain_skip,
          float* x, Arena& arena, int threads) {
  const int C = skip.outputs;
  const std::size_t position = arena.used();
  const std::size_t stride = Arena::slice(std::size_t(kRun) * C);
  float* scratch = arena.floats(stride * threads);
  parallel(threads, kParts, [&](int part, int worker) {
    float* projected = scratch + worker * stride;
    const std::size_t end = part_start(tokens, part + 1);
    for (std::size_t run = part_start(tokens, part); run < end; run += kRun) {
      const int count = int(smaller<std::size_t>(end - run, kRun));
      linear(count, encoder + run * C, C, skip, projected, C);
      for (int t = 0; t < count; ++t)
        for (int c = 0; c < C; c += 8) {
          float* at = x + (run + t) * C + c;
          store<8>(at, load<8>(gain_x + c) * load<8>(at) + load<8>(gain_skip + c) * load<8>(projected + t * C + c));
        }
    }
  });
  arena.rewind(position);
}

#endif

}  // namespace

extern const LinkKernels link_kernels = {conv3x3_scratch, conv3x3,      downsample,  upsample, channel_sums_scratch,
                                         channel_sums,    fuse_scratch, fuse};

}  // namespace SMF_ISA
}  // namespace smf
