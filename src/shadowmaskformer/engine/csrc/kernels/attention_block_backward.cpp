// The attention block in training.
//
//   x̂ = (x − mean)/std per sample,  Q, K, V = x̂·W'ᵀ + b'  with  W' = Wqkv·diag(norm weight),  b' = bqkv + Wqkv·norm bias
//   a = softmax(Q·Kᵀ + bias)·V per window and head  [+ dw5×5(V)],   o = a·Wpᵀ + bp
//   y1 = x + rescale·o + rebias,  y = y1 + mlp(y1);  rescale = meta1(std),  rebias = meta2(mean);  1/√d is part of W'q
//
// Backward goes window by window and recomputes everything from x; a window's hundred tokens stay in the second-level
// cache from the gather of x and dy to the scatter of dx. Windows that the picture's border cuts hold their real tokens
// first and without gaps; the padded ones have K = V = 0, so only their bias enters the softmax.
//
// Scores are kept transposed, (key, query): queries lie on the vector lanes, so softmax needs no sums across lanes, and
// head sizes of 12 and 16 waste none.
//
// The convolution branch crosses windows. V is computed row by row beforehand, into a map with a zero border of two
// pixels; the windows leave da in such a map, and a last pass over the rows adds what flows back through the kernel.
// That dx depends on mean and std adds α + β·x̂ to every token of a sample, once its sums are known.
#include <cmath>

#include "kernels/training_window.h"

namespace smf {
namespace SMF_ISA {
namespace {

// Tokens with a border of two zero pixels, (batch, height + 4, width + 4, channels).
class PaddedMap {
 public:
  static std::size_t floats(const TokenShape& shape) {
    return std::size_t(shape.batch) * (shape.height + 4) * (shape.width + 4) * shape.channels;
  }
  PaddedMap() = default;
  PaddedMap(float* memory, const TokenShape& shape)
      : memory_(memory), height_(shape.height), channels_(shape.channels), row_(long(shape.width + 4) * shape.channels) {
    const std::size_t border = 2 * row_ * sizeof(float), margin = 2L * channels_ * sizeof(float);
    for (int sample = 0; sample < shape.batch; ++sample) {
      std::memset(line(sample, -2), 0, border);
      std::memset(line(sample, height_), 0, border);
      for (int y = 0; y < height_; ++y) {
        std::memset(line(sample, y), 0, margin);
        std::memset(line(sample, y) + row_ - 2 * channels_, 0, margin);
      }
    }
  }
  float* row(int sample, int y) const { return line(sample, y) + 2 * channels_; }
  void around(int sample, int y, const float* rows[5]) const {
    for (int i = 0; i < 5; ++i) rows[i] = line(sample, y + i - 2);
  }

 private:
  float* line(int sample, int y) const { return memory_ + (long(sample) * (height_ + 4) + y + 2) * row_; }

  float* memory_ = nullptr;
  int height_ = 0, channels_ = 0;
  long row_ = 0;
};

struct Statistics {
  float mean, std;
};

// Mean and standard deviation of each sample: by rows, then combined in order (Chan's formula), whatever the threads.
void measure(const TokenShape& shape, int parts, const float* x, double* rows, Statistics* statistics) {
  const long count = long(shape.width) * shape.channels;
  parallel(parts, parts, [&](int part, int) {
    for_rows_of_part(shape, part, parts, [&](int sample, int first, int last) {
      for (int y = first; y < last; ++y) {
        const long at = long(sample) * shape.height + y;
        const float* row = x + at * count;
        Lane8 sum{}, squares{};
        for (long i = 0; i < count; i += kLanes) sum += load<kLanes>(row + i);
        const double mean = double(smf::SMF_ISA::sum<kLanes>(sum)) / count;
        for (long i = 0; i < count; i += kLanes) {
          const Lane8 distance = load<kLanes>(row + i) - float(mean);
          squares += distance * distance;
        }
        rows[2 * at] = mean;
        rows[2 * at + 1] = smf::SMF_ISA::sum<kLanes>(squares);
      }
    });
  });
  for (int sample = 0; sample < shape.batch; ++sample) {
    double mean = 0, squares = 0;
    const double* row = rows + 2L * sample * shape.height;
    for (int y = 0; y < shape.height; ++y) {
      const double distance = row[2 * y] - mean;
      mean += distance / (y + 1);
      squares += row[2 * y + 1] + distance * distance * count * y / (y + 1);
    }
    statistics[sample] = {float(mean), float(std::sqrt(squares / (double(count) * shape.height) + 1e-5))};
  }
}

// The block's weights as the passes want them, and its statistics.
struct Prepared {
  PackedLinear qk, v, proj;
  PackedMlp mlp;
  float *qkv_b, *taps, *flipped_taps, *position, *rescale, *rebias;
  Statistics* statistics;

  static std::size_t bytes(const AttentionShape& shape) {
    const int channels = shape.tokens.channels, batch = shape.tokens.batch;
    const std::size_t square = std::size_t(channels) * channels;
    return PackedLinear::bytes(2 * channels, channels) + 2 * PackedLinear::bytes(channels, channels) +
           PackedMlp::bytes(channels, shape.hidden) + Arena::bytes(3 * square) + Arena::bytes(3 * channels) +
           2 * Arena::bytes(std::size_t(kTaps) * channels) + Arena::bytes(position_size(shape)) +
           2 * Arena::bytes(std::size_t(batch) * channels) + Arena::bytes(2 * std::size_t(batch)) +
           Arena::bytes(4 * std::size_t(batch) * shape.tokens.height);
  }
  Prepared(Arena& arena, const AttentionShape& shape, const float* x, const AttentionBlockTensors<const float>& w,
           int parts) {
    const int channels = shape.tokens.channels, batch = shape.tokens.batch;
    float* folded = arena.floats(3L * channels * channels);
    qkv_b = arena.floats(3 * channels);
    for (int j = 0; j < 3 * channels; ++j) {
      const float scale = j < channels ? query_scale(shape) : 1.0f;
      const float* weight = w.qkv_w + long(j) * channels;
      Lane8 bias{};
      for (int c = 0; c < channels; c += kLanes) {
        bias += load<kLanes>(weight + c) * load<kLanes>(w.norm_b + c);
        store<kLanes>(folded + long(j) * channels + c,
                      load<kLanes>(weight + c) * load<kLanes>(w.norm_w + c) * scale);
      }
      qkv_b[j] = scale * (w.qkv_b[j] + sum<kLanes>(bias));
    }
    qk.pack(arena, folded, 2 * channels, channels);
    v.pack(arena, folded + 2L * channels * channels, channels, channels);
    proj.pack(arena, w.proj_w, channels, channels);
    mlp.pack(arena, w.mlp, channels, shape.hidden);
    taps = arena.floats(std::size_t(kTaps) * channels);
    flipped_taps = arena.floats(std::size_t(kTaps) * channels);
    if (w.conv_w) {
      pack_taps(w.conv_w, channels, false, taps);
      pack_taps(w.conv_w, channels, true, flipped_taps);
    }
    position = arena.floats(position_size(shape));
    expand_positions(shape, w.bias_table, position);
    statistics = reinterpret_cast<Statistics*>(arena.floats(2 * std::size_t(batch)));
    measure(shape.tokens, parts, x, reinterpret_cast<double*>(arena.floats(4L * batch * shape.tokens.height)),
            statistics);
    rescale = arena.floats(std::size_t(batch) * channels);
    rebias = arena.floats(std::size_t(batch) * channels);
    for (int sample = 0; sample < batch; ++sample)
      for (int c = 0; c < channels; ++c) {
        rescale[sample * channels + c] = w.meta1_w[c] * statistics[sample].std + w.meta1_b[c];
        rebias[sample * channels + c] = w.meta2_w[c] * statistics[sample].mean + w.meta2_b[c];
      }
  }
};

void normalise(const Statistics& s, long count, const float* x, float* normed) {
  const float scale = 1.0f / s.std;
  for (long i = 0; i < count; i += kLanes) store<kLanes>(normed + i, (load<kLanes>(x + i) - s.mean) * scale);
}

// V of the whole picture, into a padded map; then its convolution, into `convolved`. `normed_rows` is scratch, a row per part.
void convolution_branch(const AttentionShape& shape, const Prepared& block, const AttentionBlockTensors<const float>& w,
                        int parts, const float* x, const PaddedMap& v, float* convolved, float* normed_rows) {
  const TokenShape& tokens = shape.tokens;
  const int channels = tokens.channels;
  const long row = long(tokens.width) * channels;
  parallel(parts, parts, [&](int part, int) {
    float* normed = normed_rows + part * row;
    for_rows_of_part(tokens, part, parts, [&](int sample, int first, int last) {
      for (int y = first; y < last; ++y) {
        normalise(block.statistics[sample], row, x + (long(sample) * tokens.height + y) * row, normed);
        Terms terms{};
        terms.bias = block.qkv_b + 2 * channels;
        gemm(tokens.width, channels, channels, normed, channels, packed(block.v.forward, channels), v.row(sample, y),
             channels, terms);
      }
    });
  });
  parallel(parts, parts, [&](int part, int) {
    for_rows_of_part(tokens, part, parts, [&](int sample, int first, int last) {
      for (int y = first; y < last; ++y) {
        const float* rows[5];
        v.around(sample, y, rows);
        convolve_row(rows, block.taps, w.conv_b, channels, tokens.width,
                     convolved + (long(sample) * tokens.height + y) * row, channels);
      }
    });
  });
}

// The window's part of a map (…, `map_row` floats between rows) to tokens without gaps, and back.
void gather(const WindowPlace& at, int channels, const float* map, long map_row, float* tokens) {
  for (int y = 0; y < at.rows; ++y)
    std::memcpy(tokens + long(y) * at.columns * channels, map + (at.y + y) * map_row + long(at.x) * channels,
                sizeof(float) * at.columns * channels);
}
void scatter(const WindowPlace& at, int channels, const float* tokens, float* map, long map_row) {
  for (int y = 0; y < at.rows; ++y)
    std::memcpy(map + (at.y + y) * map_row + long(at.x) * channels, tokens + long(y) * at.columns * channels,
                sizeof(float) * at.columns * channels);
}

struct Maps {
  bool convolves;
  PaddedMap v, da;
  float* convolved;
};

// x, x̂, Q, K, V, scores, a, o and y1 of a window.
void recompute_window(const AttentionShape& shape, const Prepared& block, const AttentionBlockTensors<const float>& w,
                      const WindowPlace& at, const float* x, const Maps& maps, const WindowScratch& s) {
  const TokenShape& map = shape.tokens;
  const int channels = map.channels, tokens = at.rows * at.columns;
  const long map_row = long(map.width) * channels, sample = at.sample * map_row * map.height;
  gather(at, channels, x + sample, map_row, s.x);
  normalise(block.statistics[at.sample], long(tokens) * channels, s.x, s.normed);
  Terms terms{};
  terms.bias = block.qkv_b;
  gemm(tokens, 2 * channels, channels, s.normed, channels, packed(block.qk.forward, channels), s.qk, 2 * channels,
       terms);
  if (maps.convolves) {
    gather(at, channels, maps.v.row(at.sample, 0), map_row + 4 * channels, s.v);
  } else {
    terms.bias = block.qkv_b + 2 * channels;
    gemm(tokens, channels, channels, s.normed, channels, packed(block.v.forward, channels), s.v, channels, terms);
  }
  attend(shape, at, block.position, s);
  if (maps.convolves) {
    gather(at, channels, maps.convolved + sample, map_row, s.o);
    for (long i = 0; i < long(tokens) * channels; i += kLanes)
      store<kLanes>(s.a + i, load<kLanes>(s.a + i) + load<kLanes>(s.o + i));
  }
  terms.bias = w.proj_b;
  gemm(tokens, channels, channels, s.a, channels, packed(block.proj.forward, channels), s.o, channels, terms);
  const float* rescale = block.rescale + long(at.sample) * channels;
  const float* rebias = block.rebias + long(at.sample) * channels;
  for (int t = 0; t < tokens; ++t)
    for (int c = 0; c < channels; c += kLanes) {
      const long i = long(t) * channels + c;
      store<kLanes>(s.y1 + i, load<kLanes>(s.x + i) + load<kLanes>(rescale + c) * load<kLanes>(s.o + i) +
                                  load<kLanes>(rebias + c));
    }
}

void forward(const AttentionShape& shape, const float* x, const AttentionBlockTensors<const float>& w, float* y) {
  const TokenShape& map = shape.tokens;
  const int channels = map.channels, parts = std::min(num_threads(), map.batch * map.height);
  const long row = long(map.width) * channels, scratch = WindowScratch(nullptr, shape, false).used;
  const std::size_t tokens = std::size_t(map.batch) * map.height * row;
  const bool convolves = w.conv_w != nullptr;
  ArenaLease lease(shared_arenas(), Prepared::bytes(shape) + Arena::bytes(std::size_t(parts) * scratch) +
                                        Arena::bytes(parts * row) +
                                        (convolves ? Arena::bytes(PaddedMap::floats(map)) + Arena::bytes(tokens) : 0));
  Arena& arena = lease.arena();
  const Prepared block(arena, shape, x, w, parts);
  float* memory = arena.floats(std::size_t(parts) * scratch);
  Maps maps{};
  maps.convolves = convolves;
  if (convolves) {
    maps.v = PaddedMap(arena.floats(PaddedMap::floats(map)), map);
    maps.convolved = arena.floats(tokens);
    convolution_branch(shape, block, w, parts, x, maps.v, maps.convolved, arena.floats(parts * row));
  }
  parallel(parts, parts, [&](int part, int) {
    const WindowScratch s(memory + part * scratch, shape, false);
    for_windows_of_part(shape, part, parts, [&](const WindowPlace& at) {
      recompute_window(shape, block, w, at, x, maps, s);
      const int count = at.rows * at.columns, step = even_tile(count, shape.hidden);
      for (int t = 0; t < count; t += step)
        mlp_forward(block.mlp, std::min(step, count - t), s.y1 + long(t) * channels, channels, s.h,
                    s.x + long(t) * channels, channels);
      scatter(at, channels, s.x, y + at.sample * row * map.height, row);
    });
  });
}

// Gradients of one part: of the folded weights, of every (key, query) bias, and per sample of what RLN hands on.
struct PartGradients {
  float *qkv_w, *qkv_b, *taps, *conv_b, *position, *table, *proj_w;
  MlpTensors<float> mlp;
  float *rescale, *rebias;    // (batch, channels)
  double *normed, *projected;  // (batch): Σ dx̂ and Σ dx̂·x̂
  long used;

  PartGradients(float* memory, const AttentionShape& shape) {
    const int channels = shape.tokens.channels, batch = shape.tokens.batch;
    const long square = long(channels) * channels;
    Slices slices(memory);
    qkv_w = slices.take(3 * square);
    qkv_b = slices.take(3 * channels);
    taps = slices.take(long(kTaps) * channels);
    conv_b = slices.take(channels);
    position = slices.take(position_size(shape));
    table = slices.take(table_size(shape));
    proj_w = slices.take(square);
    mlp = take_mlp(slices, channels, shape.hidden);
    rescale = slices.take(long(batch) * channels);
    rebias = slices.take(long(batch) * channels);
    normed = reinterpret_cast<double*>(slices.take(2L * batch));
    projected = reinterpret_cast<double*>(slices.take(2L * batch));
    used = slices.used();
  }
};

// dx += dx̂/std (`dnormed`, `count` floats), and its two sums for the statistics.
void add_normed_gradient(const Statistics& statistics, long count, const float* dnormed, const float* normed, float* dx,
                         double* sum, double* projection) {
  const float scale = 1.0f / statistics.std;
  Lane8 sums{}, products{};
  for (long i = 0; i < count; i += kLanes) {
    const Lane8 d = load<kLanes>(dnormed + i);
    sums += d;
    products += d * load<kLanes>(normed + i);
    store<kLanes>(dx + i, load<kLanes>(dx + i) + d * scale);
  }
  *sum += smf::SMF_ISA::sum<kLanes>(sums);
  *projection += smf::SMF_ISA::sum<kLanes>(products);
}

void backward_window(const AttentionShape& shape, const Prepared& block, const AttentionBlockTensors<const float>& w,
                     const WindowPlace& at, const float* x, const float* dy, float* dx, const Maps& maps,
                     const WindowScratch& s, const PartGradients& g) {
  const TokenShape& map = shape.tokens;
  const int channels = map.channels, tokens = at.rows * at.columns;
  const long map_row = long(map.width) * channels, sample = at.sample * map_row * map.height;
  recompute_window(shape, block, w, at, x, maps, s);
  gather(at, channels, dy + sample, map_row, s.dy);
  const int step = even_tile(tokens, shape.hidden);
  for (int t = 0; t < tokens; t += step) {
    const long offset = long(t) * channels;
    mlp_backward(block.mlp, std::min(step, tokens - t), s.y1 + offset, channels, s.dy + offset, channels, s.h, s.dh,
                 s.dy1 + offset, channels, &g.mlp);
  }
  // Through rescale·o + rebias; `o` becomes its own gradient.
  for (int c = 0; c < channels; c += kLanes) {
    const Lane8 rescale = load<kLanes>(block.rescale + long(at.sample) * channels + c);
    float* drescale = g.rescale + long(at.sample) * channels + c;
    float* drebias = g.rebias + long(at.sample) * channels + c;
    Lane8 scaled = load<kLanes>(drescale), plain_sum = load<kLanes>(drebias);
    for (int t = 0; t < tokens; ++t) {
      const long i = long(t) * channels + c;
      const Lane8 d = load<kLanes>(s.dy1 + i);
      scaled += d * load<kLanes>(s.o + i);
      plain_sum += d;
      store<kLanes>(s.o + i, d * rescale);
    }
    store<kLanes>(drescale, scaled);
    store<kLanes>(drebias, plain_sum);
  }
  add_weight_gradient(channels, channels, tokens, s.o, channels, s.a, channels, g.proj_w);
  gemm(tokens, channels, channels, s.o, channels, packed(block.proj.backward, channels), s.da, channels);
  if (maps.convolves) scatter(at, channels, s.da, maps.da.row(at.sample, 0), map_row + 4 * channels);
  attend_backward(shape, at, s, g.position);

  const long square = long(channels) * channels;
  add_weight_gradient(2 * channels, channels, tokens, s.dqk, 2 * channels, s.normed, channels, g.qkv_w);
  add_weight_gradient(channels, channels, tokens, s.dv, channels, s.normed, channels, g.qkv_w + 2 * square);
  add_column_sums(2 * channels, tokens, s.dqk, 2 * channels, g.qkv_b);
  add_column_sums(channels, tokens, s.dv, channels, g.qkv_b + 2 * channels);
  gemm(tokens, channels, 2 * channels, s.dqk, 2 * channels, packed(block.qk.backward, 2 * channels), s.da, channels);
  Terms more{};
  more.init = s.da;
  more.init_row = channels;
  gemm(tokens, channels, channels, s.dv, channels, packed(block.v.backward, channels), s.da, channels, more);
  add_normed_gradient(block.statistics[at.sample], long(tokens) * channels, s.da, s.normed, s.dy1, g.normed + at.sample,
                      g.projected + at.sample);
  scatter(at, channels, s.dy1, dx + sample, map_row);
}

// What reaches V through the convolution, for some rows of a sample.
void backward_convolution_rows(const AttentionShape& shape, const Prepared& block, int sample, int first, int last,
                               const float* x, float* dx, const Maps& maps, float* rows_scratch,
                               const PartGradients& g) {
  const int channels = shape.tokens.channels, width = shape.tokens.width;
  const long row = long(width) * channels, square = long(channels) * channels;
  float* normed = rows_scratch;
  float* dv = rows_scratch + row;
  float* dnormed = rows_scratch + 2 * row;
  for (int y = first; y < last; ++y) {
    const long at = (long(sample) * shape.tokens.height + y) * row;
    const float* rows[5];
    maps.v.around(sample, y, rows);
    add_tap_gradient(rows, maps.da.row(sample, y), channels, channels, width, g.taps);
    add_column_sums(channels, width, maps.da.row(sample, y), channels, g.conv_b);
    maps.da.around(sample, y, rows);
    convolve_row(rows, block.flipped_taps, nullptr, channels, width, dv, channels);
    normalise(block.statistics[sample], row, x + at, normed);
    add_weight_gradient(channels, channels, width, dv, channels, normed, channels, g.qkv_w + 2 * square);
    add_column_sums(channels, width, dv, channels, g.qkv_b + 2 * channels);
    gemm(width, channels, channels, dv, channels, packed(block.v.backward, channels), dnormed, channels);
    add_normed_gradient(block.statistics[sample], row, dnormed, normed, dx + at, g.normed + sample,
                        g.projected + sample);
  }
}

// From the gradients of W' and b' to those of Wqkv, bqkv and the norm's weight and bias.
void unfold(const AttentionShape& shape, const AttentionBlockTensors<const float>& w, const PartGradients& g,
            const AttentionBlockTensors<float>& out) {
  const int channels = shape.tokens.channels;
  std::memset(out.norm_w, 0, channels * sizeof(float));
  std::memset(out.norm_b, 0, channels * sizeof(float));
  for (int j = 0; j < 3 * channels; ++j) {
    const float scale = j < channels ? query_scale(shape) : 1.0f, bias = scale * g.qkv_b[j];
    const float *weight = w.qkv_w + long(j) * channels, *folded = g.qkv_w + long(j) * channels;
    out.qkv_b[j] = bias;
    for (int c = 0; c < channels; ++c) {
      out.qkv_w[long(j) * channels + c] = scale * folded[c] * w.norm_w[c] + bias * w.norm_b[c];
      out.norm_w[c] += scale * weight[c] * folded[c];
      out.norm_b[c] += weight[c] * bias;
    }
  }
}

// From the gradients of rescale and rebias to those of meta1, meta2 and the projection's bias; and for each sample the
// α and β that its statistics add to dx.
void through_statistics(const AttentionShape& shape, const Prepared& block, const AttentionBlockTensors<const float>& w,
                        const PartGradients& g, const AttentionBlockTensors<float>& out, float* alpha, float* beta) {
  const int channels = shape.tokens.channels;
  const double count = double(shape.tokens.height) * shape.tokens.width * channels;
  for (float* sums : {out.meta1_w, out.meta1_b, out.meta2_w, out.meta2_b, out.proj_b})
    std::memset(sums, 0, channels * sizeof(float));
  for (int sample = 0; sample < shape.tokens.batch; ++sample) {
    const Statistics& s = block.statistics[sample];
    double dstd = -g.projected[sample] / s.std, dmean = -g.normed[sample] / s.std;
    for (int c = 0; c < channels; ++c) {
      const float drescale = g.rescale[sample * channels + c], drebias = g.rebias[sample * channels + c];
      out.meta1_w[c] += drescale * s.std;
      out.meta1_b[c] += drescale;
      out.meta2_w[c] += drebias * s.mean;
      out.meta2_b[c] += drebias;
      out.proj_b[c] += drebias * block.rescale[sample * channels + c];
      dstd += double(drescale) * w.meta1_w[c];
      dmean += double(drebias) * w.meta2_w[c];
    }
    // α + β·x̂ = (α − β·mean/std) + (β/std)·x
    beta[sample] = float(dstd / count / s.std);
    alpha[sample] = float(dmean / count - dstd / count * s.mean / s.std);
  }
}

void backward(const AttentionShape& shape, const float* x, const float* dy, const AttentionBlockTensors<const float>& w,
              float* dx, const AttentionBlockTensors<float>& out) {
  const TokenShape& map = shape.tokens;
  const int channels = map.channels, parts = std::min(num_threads(), map.batch * map.height);
  const long row = long(map.width) * channels, scratch = WindowScratch(nullptr, shape, true).used;
  const long stride = PartGradients(nullptr, shape).used;
  const std::size_t tokens = std::size_t(map.batch) * map.height * row;
  const bool convolves = w.conv_w != nullptr;
  ArenaLease lease(shared_arenas(),
                   Prepared::bytes(shape) + Arena::bytes(std::size_t(parts) * scratch) +
                       Arena::bytes(std::size_t(parts) * stride) + Arena::bytes(3 * parts * row) +
                       2 * Arena::bytes(map.batch) +
                       (convolves ? 2 * Arena::bytes(PaddedMap::floats(map)) + Arena::bytes(tokens) : 0));
  Arena& arena = lease.arena();
  const Prepared block(arena, shape, x, w, parts);
  float* memory = arena.floats(std::size_t(parts) * scratch);
  float* sums = arena.floats(std::size_t(parts) * stride);
  float* rows = arena.floats(3 * parts * row);
  Maps maps{};
  maps.convolves = convolves;
  if (convolves) {
    maps.v = PaddedMap(arena.floats(PaddedMap::floats(map)), map);
    maps.da = PaddedMap(arena.floats(PaddedMap::floats(map)), map);
    maps.convolved = arena.floats(tokens);
    convolution_branch(shape, block, w, parts, x, maps.v, maps.convolved, rows);
  }
  parallel(parts, parts, [&](int part, int) {
    std::memset(sums + part * stride, 0, stride * sizeof(float));
    const PartGradients g(sums + part * stride, shape);
    const WindowScratch s(memory + part * scratch, shape, true);
    for_windows_of_part(shape, part, parts, [&](const WindowPlace& at) {
      backward_window(shape, block, w, at, x, dy, dx, maps, s, g);
    });
    collect_positions(shape, g.position, g.table);
  });
  if (convolves)
    parallel(parts, parts, [&](int part, int) {
      const PartGradients g(sums + part * stride, shape);
      for_rows_of_part(map, part, parts, [&](int sample, int first, int last) {
        backward_convolution_rows(shape, block, sample, first, last, x, dx, maps, rows + 3 * part * row, g);
      });
    });

  const PartGradients g(sums, shape);
  const long square = long(channels) * channels, per_sample = long(map.batch) * channels;
  for (int part = 1; part < parts; ++part) {
    const PartGradients more(sums + part * stride, shape);
    for (int sample = 0; sample < map.batch; ++sample) {
      g.normed[sample] += more.normed[sample];
      g.projected[sample] += more.projected[sample];
    }
  }
  sum_parts(g.qkv_w, stride, parts, 3 * square, g.qkv_w);
  sum_parts(g.qkv_b, stride, parts, 3 * channels, g.qkv_b);
  sum_parts(g.rescale, stride, parts, per_sample, g.rescale);
  sum_parts(g.rebias, stride, parts, per_sample, g.rebias);
  sum_parts(g.proj_w, stride, parts, square, out.proj_w);
  sum_parts(g.table, stride, parts, table_size(shape), out.bias_table);
  sum_mlp(g.mlp, stride, parts, channels, shape.hidden, out.mlp);
  if (convolves) {
    sum_parts(g.taps, stride, parts, long(kTaps) * channels, g.taps);
    unpack_taps(g.taps, channels, out.conv_w);
    sum_parts(g.conv_b, stride, parts, channels, out.conv_b);
  }
  unfold(shape, w, g, out);
  float* alpha = arena.floats(map.batch);
  float* beta = arena.floats(map.batch);
  through_statistics(shape, block, w, g, out, alpha, beta);
  parallel(parts, parts, [&](int part, int) {
    for_rows_of_part(map, part, parts, [&](int sample, int first, int last) {
      const long from = (long(sample) * map.height + first) * row, to = from + (last - first) * row;
      for (long i = from; i < to; i += kLanes)
        store<kLanes>(dx + i, load<kLanes>(dx + i) + (load<kLanes>(x + i) * beta[sample] + alpha[sample]));
    });
  });
}

}  // namespace

extern const AttentionBlockForward attention_block_training_forward;
extern const AttentionBlockBackward attention_block_backward;
const AttentionBlockForward attention_block_training_forward = forward;
const AttentionBlockBackward attention_block_backward = backward;

}  // namespace SMF_ISA
}  // namespace smf
