// Gradients of the attention block, recomputed from its input.
//
//   x̂ = (x − mean)/std per sample,  Q, K, V = x̂·W'ᵀ + b'  with  W' = Wqkv·diag(norm weight),  b' = bqkv + Wqkv·norm bias
//   a = softmax(Q·Kᵀ + bias)·V per window and head  [+ dw5×5(V)],   o = a·Wpᵀ + bp
//   y1 = x + rescale·o + rebias,  y = y1 + mlp(y1);  rescale = meta1(std),  rebias = meta2(mean).  1/√d and log2(e) are part
//   of W'q and of the bias (see core/pack.h): scores, and their gradients, are those of powers of two
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
#include <initializer_list>

#include "kernels/backward.h"
#include "kernels/window.h"

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
    const long margin = 2L * channels_;
    for (int sample = 0; sample < shape.batch; ++sample) {
      zero(line(sample, -2), 2 * row_);
      zero(line(sample, height_), 2 * row_);
      for (int y = 0; y < height_; ++y) {
        zero(line(sample, y), margin);
        zero(line(sample, y) + row_ - margin, margin);
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

// Calls body(sample, window) for the windows of part `part`: consecutive ones with about equal numbers of tokens.
template <class Body>
void for_windows_of_part(const AttentionShape& shape, int part, int parts, const Body& body) {
  const TokenShape& map = shape.tokens;
  const Windows windows(shape.window, shape.shift, map.height, map.width);
  const long total = long(map.batch) * map.height * map.width;
  long before = 0;
  for (int sample = 0; sample < map.batch; ++sample)
    for (int index = 0; index < windows.count(); ++index) {
      const Window window = windows.at(index);
      const long middle = 2 * before + window.tokens();
      before += window.tokens();
      if (middle * parts / (2 * total) == part) body(sample, window);
    }
}

long position_size(const AttentionShape& shape) {
  return long(shape.heads) * shape.window * shape.window * padded_tokens(shape.window);
}
long table_size(const AttentionShape& shape) {
  return long(2 * shape.window - 1) * (2 * shape.window - 1) * shape.heads;
}

// The block's weights both ways, and each sample's norm.
struct Prepared {
  AttentionBlock block, transposed;
  Norm* norms;

  static std::size_t bytes(const AttentionShape& shape) {
    return 2 * Packer::attention_block_bytes(shape) + Arena::bytes(shape.tokens.batch * sizeof(Norm) / sizeof(float)) +
           2 * shape.tokens.batch * Arena::bytes(shape.tokens.channels);
  }
  Prepared(Arena& arena, const AttentionShape& shape, const float* x, const AttentionBlockTensors<const float>& w,
           int threads) {
    const int channels = shape.tokens.channels, batch = shape.tokens.batch;
    Packer packer(arena, pack);
    block = packer.attention_block(shape, w);
    transposed = packer.transposed(shape, w);
    norms = reinterpret_cast<Norm*>(arena.floats(batch * sizeof(Norm) / sizeof(float)));
    const std::size_t picture = std::size_t(shape.tokens.height) * shape.tokens.width * channels;
    for (int sample = 0; sample < batch; ++sample) {
      float *rescale = arena.floats(channels), *rebias = arena.floats(channels);
      norms[sample] = make_norm(block, moments_of_map(x + sample * picture, picture, threads), rescale, rebias);
    }
  }
};

// Arrays of a window. Token arrays are (n, C) and transposed ones (C, n), with n = padded_tokens.
struct Scratch {
  float *x, *normed, *qk, *v, *query_t, *attended_t, *a, *o, *y1, *h;
  float *scores;          // (heads, key, n); softmax without its denominator, later with it
  float *inverse;         // (heads, n): 1 / the denominator
  float *cut_position;    // (heads, key, n): the position bias of a cut window
  float *dy, *dy1, *dh, *da, *da_t, *dqk, *dv, *dquery_t, *dscores, *dhead;
  std::size_t used;

  Scratch(float* memory, const AttentionShape& shape) {
    const long n = padded_tokens(shape.window), tokens = n * shape.tokens.channels;
    Slices slices(memory);
    for (float** array : {&x, &normed, &v, &query_t, &attended_t, &a, &o, &y1, &dy, &dy1, &da, &da_t, &dv, &dquery_t})
      *array = slices.take(tokens);
    qk = slices.take(2 * tokens);
    dqk = slices.take(2 * tokens);
    h = slices.take(hidden_floats(shape.hidden));
    dh = slices.take(hidden_floats(shape.hidden));
    scores = slices.take(position_size(shape));
    cut_position = slices.take(position_size(shape));
    inverse = slices.take(shape.heads * n);
    dscores = slices.take(n * n);
    dhead = slices.take(tokens + n * 8);
    used = slices.used();
  }
};

// Zero the rows from `tokens` to the next multiple of eight.
void clear_padding(int tokens, int columns, float* x, long x_row) {
  for (int t = tokens; t % 8; ++t) zero(x + t * x_row, columns);
}

// Calls body(slot within the window, number among the tokens, length) for each run of real tokens without a gap.
template <class Body>
SMF_INLINE void for_runs(const Window& at, int side, const Body& body) {
  if (at.columns() == side) return body(at.row * side, 0, at.rows() * side);
  for (int y = 0; y < at.rows(); ++y) body((at.row + y) * side + at.column, y * at.columns(), at.columns());
}

// Calls body(slot, number) for all keys: real tokens are numbered first, padded ones after them.
template <class Body>
SMF_INLINE void for_keys(const Window& at, int side, const Body& body) {
  int real = 0, padded = at.tokens();
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      const bool inside = y >= at.row && y < at.row + at.rows() && x >= at.column && x < at.column + at.columns();
      body(y * side + x, inside ? real++ : padded++);
    }
}

// A cut window keeps only its real tokens here, while the forward pass fills it up with zeros: the backward pass makes
// four more products of the scores' size. The difference has not been measured.
//
// a = softmax(Q·Kᵀ + position)·V from s.qk and s.v; leaves scores, inverse, query_t and attended_t for backward.
void attend_window(const AttentionBlock& block, const Window& at, const Scratch& s) {
  const int channels = block.channels, depth = channels / block.heads, side = block.window;
  const int tokens = at.tokens(), keys = side * side, columns = (tokens + 7) / 8 * 8;
  const long n = padded_tokens(side);
  clear_padding(tokens, channels, s.qk, 2 * channels);
  transpose(columns, channels, s.qk, 2 * channels, s.query_t, n);
  for (int head = 0; head < block.heads; ++head) {
    const long first = long(head) * depth;
    const float* bias = block.bias + head * keys * n;
    if (tokens < keys) {
      float* cut = s.cut_position + head * keys * n;
      for_keys(at, side, [&](int key, int number) {
        float* to = cut + number * n;
        for_runs(at, side, [&](int slot, int token, int length) {
          for (int i = 0; i < length; ++i) to[token + i] = bias[key * n + slot + i];
        });
        for (int t = tokens; t < columns; ++t) to[t] = 0;
      });
      bias = cut;
    }
    for_panels(columns, [&](int query, auto shape) {
      attend<shape.lanes, shape.vectors>(tokens, keys, depth, s.query_t + first * n + query, s.qk + channels + first,
                                         2 * channels, s.v + first, channels, bias + query, n,
                                         s.scores + head * keys * n + query, n, s.inverse + head * n + query,
                                         s.attended_t + first * n + query);
    });
  }
  transpose(channels, columns, s.attended_t, n, s.a, channels);
}

// dqk, dv and the gradient of the position bias (added to `dposition`, by slot) from da.
void attend_backward(const AttentionBlock& block, const Window& at, const Scratch& s, float* dposition) {
  const int channels = block.channels, depth = channels / block.heads, side = block.window;
  const int tokens = at.tokens(), keys = side * side, columns = (tokens + 7) / 8 * 8;
  const int depth8 = (depth + 7) / 8 * 8;
  const long n = padded_tokens(side);
  clear_padding(tokens, channels, s.da, channels);
  transpose(columns, channels, s.da, channels, s.da_t, n);
  for (int head = 0; head < block.heads; ++head) {
    const long first = long(head) * depth;
    float* scores = s.scores + head * keys * n;
    const float* inverse = s.inverse + head * n;
    float* dbias = dposition + head * keys * n;
    for_panels(columns, [&](int column, auto shape) {
      constexpr int L = shape.lanes, V = shape.vectors;
      float* dscores = s.dscores + column;
      panel<L, V, Finish::plain>(tokens, depth, s.v + first, channels, 1, s.da_t + first * n + column, n, {}, dscores,
                                 n);
      for (int key = tokens; key < keys; ++key) zero(dscores + key * n, shape.columns);
      // P = 2^S / Σ 2^S, so dS = ln 2·P·(dP − Σ P·dP), and Σ over keys of P·dP is Σ over channels of a·da.
      constexpr float kLn2 = 1 / kLog2E;
      Vec<L> mean[V], scale[V];
      for (int v = 0; v < V; ++v) {
        mean[v] = Vec<L>{};
        scale[v] = load<L>(inverse + column + v * L);
        for (long c = first; c < first + depth; ++c)
          mean[v] += load<L>(s.da_t + c * n + column + v * L) * load<L>(s.attended_t + c * n + column + v * L);
        mean[v] *= kLn2;
      }
      for (int key = 0; key < keys; ++key)
        for (int v = 0; v < V; ++v) {
          const long i = key * n + v * L;
          const Vec<L> weight = load<L>(scores + column + i) * scale[v];
          const Vec<L> d = weight * (load<L>(dscores + i) * kLn2 - mean[v]);
          store<L>(scores + column + i, weight);
          store<L>(dscores + i, d);
          if (tokens == keys) store<L>(dbias + column + i, load<L>(dbias + column + i) + d);
        }
      panel<L, V, Finish::plain>(depth, tokens, s.qk + channels + first, 1, 2 * channels, dscores, n, {},
                                 s.dquery_t + first * n + column, n);
    });
    if (tokens < keys)
      for_keys(at, side, [&](int key, int number) {
        for_runs(at, side, [&](int slot, int token, int length) {
          for (int i = 0; i < length; ++i) dbias[key * n + slot + i] += s.dscores[number * n + token + i];
        });
      });
    // Heads of 12 channels are not whole vectors. They go through an array of their own, so as not to write into the next.
    const auto along_keys = [&](const float* weights, const float* operand, long operand_row, float* out, long out_row) {
      gemm<Finish::plain>(tokens, depth8, tokens, weights, n, plain(operand, operand_row), {}, s.dhead, depth8);
      for (int t = 0; t < tokens; ++t) copy(out + t * out_row, s.dhead + long(t) * depth8, depth);
    };
    along_keys(s.dscores, s.qk + first, 2 * channels, s.dqk + channels + first, 2 * channels);
    along_keys(scores, s.da + first, channels, s.dv + first, channels);
  }
  transpose(channels, columns, s.dquery_t, n, s.dqk, 2 * channels);
}

// V of the whole picture, into a padded map; then its convolution, into `convolved`. `normed_rows` is scratch, a row per
// part.
void convolution_branch(const AttentionShape& shape, const Prepared& p, int parts, const float* x, const PaddedMap& v,
                        float* convolved, float* normed_rows) {
  const TokenShape& tokens = shape.tokens;
  const int channels = tokens.channels;
  const long row = long(tokens.width) * channels;
  parallel(parts, parts, [&](int part, int) {
    float* normed = normed_rows + part * row;
    for_rows_of_part(tokens, part, parts, [&](int sample, int first, int last) {
      for (int y = first; y < last; ++y) {
        normalise(p.norms[sample], row, x + (long(sample) * tokens.height + y) * row, normed);
        linear(tokens.width, normed, channels, p.block.v, v.row(sample, y), channels);
      }
    });
  });
  parallel(parts, parts, [&](int part, int) {
    for_rows_of_part(tokens, part, parts, [&](int sample, int first, int last) {
      for (int y = first; y < last; ++y) {
        const float* rows[5];
        v.around(sample, y, rows);
        depthwise_row(rows, tokens.width, channels, p.block.conv, convolved + (long(sample) * tokens.height + y) * row);
      }
    });
  });
}

struct Maps {
  PaddedMap v, da;
  float* convolved;
};

// x, x̂, Q, K, V, scores, a, o and y1 of a window.
void recompute_window(const AttentionShape& shape, const Prepared& p, int sample, const Window& at, const float* x,
                      const Maps& maps, const Scratch& s) {
  const TokenShape& map = shape.tokens;
  const AttentionBlock& block = p.block;
  const int channels = map.channels, tokens = at.tokens();
  const long map_row = long(map.width) * channels, picture = sample * map_row * map.height;
  const Norm& norm = p.norms[sample];
  gather(at, channels, x + picture, map_row, s.x);
  normalise(norm, long(tokens) * channels, s.x, s.normed);
  linear(tokens, s.normed, channels, block.qk, s.qk, 2 * channels);
  if (block.convolves)
    gather(at, channels, maps.v.row(sample, 0), map_row + 4 * channels, s.v);
  else
    linear(tokens, s.normed, channels, block.v, s.v, channels);
  attend_window(block, at, s);
  if (block.convolves) {
    gather(at, channels, maps.convolved + picture, map_row, s.o);
    for (long i = 0; i < long(tokens) * channels; i += 8) store<8>(s.a + i, load<8>(s.a + i) + load<8>(s.o + i));
  }
  linear(tokens, s.a, channels, block.proj, s.o, channels);
  add_rescaled(norm, tokens, channels, s.x, s.o, s.y1);
}

// Gradients of one part: of the folded weights, of every (key, query) bias, and per sample of what RLN hands on.
struct PartGradients {
  float *qkv_w, *qkv_b, *taps, *conv_b, *position, *table, *proj_w;
  MlpTensors<float> mlp;
  float *rescale, *rebias;    // (batch, channels)
  double *normed, *projected;  // (batch): Σ dx̂ and Σ dx̂·x̂
  std::size_t used;

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
void add_normed_gradient(const Norm& norm, long count, const float* dnormed, const float* normed, float* dx,
                         double* sum_out, double* projection_out) {
  const float scale = 1.0f / norm.std;
  Vec<8> sums{}, products{};
  for (long i = 0; i < count; i += 8) {
    const Vec<8> d = load<8>(dnormed + i);
    sums += d;
    products += d * load<8>(normed + i);
    store<8>(dx + i, load<8>(dx + i) + d * scale);
  }
  *sum_out += sum<8>(sums);
  *projection_out += sum<8>(products);
}

void backward_window(const AttentionShape& shape, const Prepared& p, int sample, const Window& at, const float* x,
                     const float* dy, float* dx, const Maps& maps, const Scratch& s, const PartGradients& g) {
  const TokenShape& map = shape.tokens;
  const int channels = map.channels, tokens = at.tokens();
  const long map_row = long(map.width) * channels, picture = sample * map_row * map.height;
  const Norm& norm = p.norms[sample];
  recompute_window(shape, p, sample, at, x, maps, s);
  gather(at, channels, dy + picture, map_row, s.dy);
  mlp_backward(p.block.mlp, p.transposed.mlp, tokens, s.y1, s.dy, s.h, s.dh, s.dy1, &g.mlp);
  // Through rescale·o + rebias; `o` becomes its own gradient.
  for (int c = 0; c < channels; c += 8) {
    const Vec<8> rescale = load<8>(norm.rescale + c);
    float* drescale = g.rescale + long(sample) * channels + c;
    float* drebias = g.rebias + long(sample) * channels + c;
    Vec<8> scaled = load<8>(drescale), plain_sum = load<8>(drebias);
    for (int t = 0; t < tokens; ++t) {
      const long i = long(t) * channels + c;
      const Vec<8> d = load<8>(s.dy1 + i);
      scaled += d * load<8>(s.o + i);
      plain_sum += d;
      store<8>(s.o + i, d * rescale);
    }
    store<8>(drescale, scaled);
    store<8>(drebias, plain_sum);
  }
  add_weight_gradient(channels, channels, tokens, s.o, channels, s.a, channels, g.proj_w);
  linear(tokens, s.o, channels, p.transposed.proj, s.da, channels);
  if (p.block.convolves) scatter(at, channels, s.da, maps.da.row(sample, 0), map_row + 4 * channels);
  attend_backward(p.block, at, s, g.position);

  const long square = long(channels) * channels;
  add_weight_gradient(2 * channels, channels, tokens, s.dqk, 2 * channels, s.normed, channels, g.qkv_w);
  add_weight_gradient(channels, channels, tokens, s.dv, channels, s.normed, channels, g.qkv_w + 2 * square);
  add_column_sums(2 * channels, tokens, s.dqk, 2 * channels, g.qkv_b);
  add_column_sums(channels, tokens, s.dv, channels, g.qkv_b + 2 * channels);
  linear(tokens, s.dqk, 2 * channels, p.transposed.qk, s.da, channels);
  linear(tokens, s.dv, channels, p.transposed.v, s.da, channels, s.da, channels);
  add_normed_gradient(norm, long(tokens) * channels, s.da, s.normed, s.dy1, g.normed + sample, g.projected + sample);
  scatter(at, channels, s.dy1, dx + picture, map_row);
}

// What reaches V through the convolution, for some rows of a sample.
void backward_convolution_rows(const AttentionShape& shape, const Prepared& p, int sample, int first, int last,
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
    add_tap_gradient(rows, maps.da.row(sample, y), channels, width, g.taps);
    add_column_sums(channels, width, maps.da.row(sample, y), channels, g.conv_b);
    maps.da.around(sample, y, rows);
    depthwise_row(rows, width, channels, p.transposed.conv, dv);
    normalise(p.norms[sample], row, x + at, normed);
    add_weight_gradient(channels, channels, width, dv, channels, normed, channels, g.qkv_w + 2 * square);
    add_column_sums(channels, width, dv, channels, g.qkv_b + 2 * channels);
    linear(width, dv, channels, p.transposed.v, dnormed, channels);
    add_normed_gradient(p.norms[sample], row, dnormed, normed, dx + at, g.normed + sample, g.projected + sample);
  }
}

// From the gradients of W' and b' to those of Wqkv, bqkv and the norm's weight and bias.
void unfold(const AttentionShape& shape, const AttentionBlockTensors<const float>& w, const PartGradients& g,
            const AttentionBlockTensors<float>& out) {
  const int channels = shape.tokens.channels;
  zero(out.norm_w, channels);
  zero(out.norm_b, channels);
  for (int j = 0; j < 3 * channels; ++j) {
    const float scale = j < channels ? query_scale(channels, shape.heads) : 1.0f, bias = scale * g.qkv_b[j];
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
void through_statistics(const AttentionShape& shape, const Prepared& p, const AttentionBlockTensors<const float>& w,
                        const PartGradients& g, const AttentionBlockTensors<float>& out, float* alpha, float* beta) {
  const int channels = shape.tokens.channels;
  const double count = double(shape.tokens.height) * shape.tokens.width * channels;
  for (float* sums : {out.meta1_w, out.meta1_b, out.meta2_w, out.meta2_b, out.proj_b})
    zero(sums, channels);
  for (int sample = 0; sample < shape.tokens.batch; ++sample) {
    const Norm& s = p.norms[sample];
    double dstd = -g.projected[sample] / s.std, dmean = -g.normed[sample] / s.std;
    for (int c = 0; c < channels; ++c) {
      const float drescale = g.rescale[sample * channels + c], drebias = g.rebias[sample * channels + c];
      out.meta1_w[c] += drescale * s.std;
      out.meta1_b[c] += drescale;
      out.meta2_w[c] += drebias * s.mean;
      out.meta2_b[c] += drebias;
      out.proj_b[c] += drebias * s.rescale[c];
      dstd += double(drescale) * w.meta1_w[c];
      dmean += double(drebias) * w.meta2_w[c];
    }
    // α + β·x̂ = (α − β·mean/std) + (β/std)·x
    beta[sample] = float(dstd / count / s.std);
    alpha[sample] = float(dmean / count - dstd / count * s.mean / s.std);
  }
}

}  // namespace

void attention_block_backward(const AttentionShape& shape, const float* x, const float* dy,
                              const AttentionBlockTensors<const float>& w, float* dx,
                              const AttentionBlockTensors<float>& out) {
  const TokenShape& map = shape.tokens;
  const int channels = map.channels, parts = smaller(num_threads(), map.batch * map.height);
  const std::size_t row = std::size_t(map.width) * channels, tokens = map.batch * map.height * row;
  const std::size_t scratch = Scratch(nullptr, shape).used, stride = PartGradients(nullptr, shape).used;
  const bool convolves = w.conv_w != nullptr;
  ArenaLease lease(shared_arenas(),
                   Prepared::bytes(shape) + Arena::bytes(parts * scratch) + Arena::bytes(parts * stride) +
                       Arena::bytes(3 * parts * row) + 2 * Arena::bytes(map.batch) +
                       (convolves ? 2 * Arena::bytes(PaddedMap::floats(map)) + Arena::bytes(tokens) : 0));
  Arena& arena = lease.arena();
  const Prepared p(arena, shape, x, w, parts);
  float* memory = arena.floats(parts * scratch);
  float* sums = arena.floats(parts * stride);
  float* rows = arena.floats(3 * parts * row);
  Maps maps{};
  if (convolves) {
    maps.v = PaddedMap(arena.floats(PaddedMap::floats(map)), map);
    maps.da = PaddedMap(arena.floats(PaddedMap::floats(map)), map);
    maps.convolved = arena.floats(tokens);
    convolution_branch(shape, p, parts, x, maps.v, maps.convolved, rows);
  }
  parallel(parts, parts, [&](int part, int) {
    zero(sums + part * stride, stride);
    const PartGradients g(sums + part * stride, shape);
    const Scratch s(memory + part * scratch, shape);
    for_windows_of_part(shape, part, parts, [&](int sample, const Window& at) {
      backward_window(shape, p, sample, at, x, dy, dx, maps, s, g);
    });
    collect_position_bias(g.position, shape.heads, shape.window, g.table);
  });
  if (convolves)
    parallel(parts, parts, [&](int part, int) {
      const PartGradients g(sums + part * stride, shape);
      for_rows_of_part(map, part, parts, [&](int sample, int first, int last) {
        backward_convolution_rows(shape, p, sample, first, last, x, dx, maps, rows + 3 * part * row, g);
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
  through_statistics(shape, p, w, g, out, alpha, beta);
  parallel(parts, parts, [&](int part, int) {
    for_rows_of_part(map, part, parts, [&](int sample, int first, int last) {
      const long from = (long(sample) * map.height + first) * row, to = from + (last - first) * row;
      for (long i = from; i < to; i += 8)
        store<8>(dx + i, load<8>(dx + i) + (load<8>(x + i) * beta[sample] + alpha[sample]));
    });
  });
}

}  // namespace SMF_ISA
}  // namespace smf
