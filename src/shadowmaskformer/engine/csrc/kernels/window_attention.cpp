// Attention block:  y = x + rescale * proj(softmax(q k^T / sqrt(d) + bias) v [+ dw5x5(v)]) + rebias
//                   out = y + W2 relu(W1 y + b1) + b2
// with q, k, v linear in n = (x - mean) / std * weight + bias, mean and std over the whole map, rescale and rebias
// linear in std and mean (the rescaled layer norm).
//
// Windows    of side w tile the plane from (-shift, -shift). Tokens of a window outside the picture have q = k = v = 0
//            (zero, not the layers' bias): they take part in the softmax as keys and are dropped as queries.
// Layout     x, out (H, W, C), channels last. Inside a window the softmax has queries on the lanes and keys along
//            memory, so maximum and sum need no shuffles: scores are S^T[key][query], computed for 24 queries at a time
//            (48 with AVX-512), 10 KiB that stay in the first-level cache from q k^T to the product with v.
// Threads    A few windows of a row are a task: beside each other, they share the margin that the convolution branch
//            needs around v. Tasks share nothing but their input; any number of threads gives the same bits.
// Fusion     A window passes from normalisation to the end of the MLP in cache, so x is read once and out written
//            once; separate operators would write and read the map about fifteen times, heads * w**2 / C times as
//            wide for the scores. The moments for the next block's norm are taken from the window on its way out.
// Speed      54 % (24 channels) to 75 % (96) of the peak of multiply-adds (one core, AVX2); a seventh of the time at
//            24 channels goes into powers of two.
// Scratch    per thread: about (w**2 + 8) (7 C + 96) floats, and 3 (w + 4)**2 C with the convolution branch.
#include <cmath>
#include <cstring>

#include "core/threads.h"
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {
namespace {

// The layer norm at run time: n = (x - mean) * scale + bias per channel, y = x + rescale * A(n) + rebias.
struct Norm {
  float mean;
  const float* scale;
  const float* bias;
  const float* rescale;
  const float* rebias;
};

constexpr std::size_t norm_floats(int channels) { return 3 * std::size_t(channels); }

Norm prepare_norm(const AttentionBlock& block, const Moments& moments, float* room) {
  const int C = block.channels;
  const float mean = float(moments.mean);
  const float std = float(std::sqrt(moments.squares / moments.count + kNormEpsilon));
  float *scale = room, *rescale = room + C, *rebias = room + 2 * C;
  for (int c = 0; c < C; ++c) {
    scale[c] = block.norm_weight[c] / std;
    rescale[c] = block.meta1_weight[c] * std + block.meta1_bias[c];
    rebias[c] = block.meta2_weight[c] * mean + block.meta2_bias[c];
  }
  return Norm{mean, scale, block.norm_bias, rescale, rebias};
}

}  // namespace

#if defined(SMF_ISA_scalar)

namespace {

// One token times a weight (outputs, inputs).
void linear(const Matrix& m, const float* x, float* out) {
  for (int n = 0; n < m.outputs; ++n) {
    float total = m.bias[n];
    for (int k = 0; k < m.inputs; ++k) total += m.packed[long(n) * m.inputs + k] * x[k];
    out[n] = total;
  }
}

}  // namespace

std::size_t attention_block_scratch(const AttentionBlock& block, int height, int width, int) {
  const std::size_t pixels = std::size_t(height) * width;
  return 4 * Arena::bytes(pixels * block.channels) + Arena::bytes(norm_floats(block.channels)) +
         Arena::bytes(std::size_t(block.window) * block.window) + Arena::bytes(block.mlp.first.outputs) +
         Arena::bytes(2 * block.channels);
}

// Scalar: operator after operator over the whole map, query by query.
void attention_block(const AttentionBlock& block, int height, int width, const float* x, const Moments& moments_in,
                     float* out, Moments* moments, Arena& arena, int) {
  const int C = block.channels, w = block.window, depth = C / block.heads;
  const long pixels = long(height) * width;
  const std::size_t position = arena.used();
  float* qk = arena.floats(pixels * 2 * C);
  float* v = arena.floats(pixels * C);
  float* mixed = arena.floats(pixels * C);
  const Norm norm = prepare_norm(block, moments_in, arena.floats(norm_floats(C)));
  float* scores = arena.floats(std::size_t(w) * w);
  float* hidden = arena.floats(block.mlp.first.outputs);
  float* token = arena.floats(2 * C);
  for (long p = 0; p < pixels; ++p) {
    for (int c = 0; c < C; ++c) token[c] = (x[p * C + c] - norm.mean) * norm.scale[c] + norm.bias[c];
    linear(block.qk, token, qk + p * 2 * C);
    linear(block.v, token, v + p * C);
  }
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column) {
      const int top = (row + block.shift) / w * w - block.shift, left = (column + block.shift) / w * w - block.shift;
      const long p = long(row) * width + column;
      const int query = (row - top) * w + column - left;
      for (int head = 0; head < block.heads; ++head) {
        float highest = -1e30f;
        for (int key = 0; key < w * w; ++key) {
          const int r = top + key / w, c = left + key % w;
          scores[key] = block.bias[(long(head) * w * w + key) * padded_tokens(w) + query];
          const float *q = qk + p * 2 * C + head * depth, *k = qk + (long(r) * width + c) * 2 * C + C + head * depth;
          if (r >= 0 && r < height && c >= 0 && c < width)
            for (int i = 0; i < depth; ++i) scores[key] += q[i] * k[i];
          if (scores[key] > highest) highest = scores[key];
        }
        float total = 0;
        for (int key = 0; key < w * w; ++key) total += scores[key] = std::exp2(scores[key] - highest);
        for (int i = 0; i < depth; ++i) {
          float sum = 0;
          for (int key = 0; key < w * w; ++key) {
            const int r = top + key / w, c = left + key % w;
            if (r >= 0 && r < height && c >= 0 && c < width)
              sum += scores[key] * v[(long(r) * width + c) * C + head * depth + i];
          }
          mixed[p * C + head * depth + i] = sum / total;
        }
      }
      if (block.convolves)
        for (int c = 0; c < C; ++c) {
          float total = block.conv.bias[c];
          for (int dy = -2; dy <= 2; ++dy)
            for (int dx = -2; dx <= 2; ++dx)
              if (row + dy >= 0 && row + dy < height && column + dx >= 0 && column + dx < width)
                total += block.conv.weight[((dy + 2) * 5 + dx + 2) * C + c] * v[(p + long(dy) * width + dx) * C + c];
          mixed[p * C + c] += total;
        }
    }
  for (long p = 0; p < pixels; ++p) {
    float* y = token;
    linear(block.proj, mixed + p * C, y);
    for (int c = 0; c < C; ++c) y[c] = x[p * C + c] + norm.rescale[c] * y[c] + norm.rebias[c];
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

constexpr int kPanel = 3 * kWide;  // queries per panel
alignas(64) constexpr float kZeros[kPanel] = {};

// The part of a window inside the picture, in picture coordinates, and its place in the window.
struct Window {
  int top, bottom, left, right;
  int row, column;  // of (top, left) within the window
  int rows() const { return bottom - top; }
  int columns() const { return right - left; }
  int tokens() const { return rows() * columns(); }
};

struct Windows {
  int rows, columns;
  Windows(const AttentionBlock& block, int height, int width)
      : rows((height + block.shift + block.window - 1) / block.window),
        columns((width + block.shift + block.window - 1) / block.window) {}
  int count() const { return rows * columns; }
  // How many neighbours make a task: up to eight, while there are several tasks for every thread.
  int per_task(int threads) const {
    const int most = count() / (4 * threads);
    const int wanted = most < 1 ? 1 : most > 8 ? 8 : most;
    return wanted < columns ? wanted : columns;
  }
  Window at(int index, const AttentionBlock& block, int height, int width) const {
    const int top = index / columns * block.window - block.shift, left = index % columns * block.window - block.shift;
    Window window;
    window.top = top > 0 ? top : 0;
    window.left = left > 0 ? left : 0;
    window.bottom = top + block.window < height ? top + block.window : height;
    window.right = left + block.window < width ? left + block.window : width;
    window.row = window.top - top;
    window.column = window.left - left;
    return window;
  }
};

// One thread's scratch. "Compact" arrays hold the window's tokens inside the picture, "full" ones all w**2 in order,
// rounded up to whole vectors.
struct Scratch {
  float* normed;   // compact (tokens, C); later the projection, then y
  float* qk;       // compact (tokens, 2 C)
  float* v;        // full (w**2, C)
  float* full;     // full (w**2, 2 C): q and k of a window that is cut by the border; later the attention's result
  float* q_t;      // (C, padded): queries on the lanes; later the attention's result likewise
  float* scores;   // (w**2, panel)
  float* hidden;   // compact (tokens, slice of the MLP)
  float* out;      // compact (tokens, C)
  float* grid;     // (w + 4, w + 4, C): v with its margin, for the convolution branch
  float* margin;   // the normalised tokens of new columns of grid, and after them their v

  static std::size_t floats(const AttentionBlock& block) { return Scratch(block, nullptr).end_; }
  Scratch(const AttentionBlock& block, float* start) : start_(start), end_(0) {
    const std::size_t C = block.channels, padded = padded_tokens(block.window), side = block.window + 4;
    normed = take(padded * C);
    qk = take(padded * 2 * C);
    v = take(padded * C);
    full = take(padded * 2 * C);
    q_t = take(padded * C);
    scores = take(padded * kPanel);
    hidden = take(mlp_scratch(block.mlp, int(padded)));
    out = take(padded * C);
    grid = take(block.convolves ? side * side * C : 0);
    margin = take(block.convolves ? 2 * side * side * C : 0);
  }

 private:
  float* take(std::size_t count) {
    float* place = start_ ? start_ + end_ : nullptr;
    end_ += (count + 15) / 16 * 16;
    return place;
  }
  float* start_;
  std::size_t end_;
};

void normalise(const Norm& norm, const float* x, int tokens, int channels, float* out) {
  for (int t = 0; t < tokens; ++t)
    for (int c = 0; c < channels; c += 8)
      store<8>(out + t * channels + c, (load<8>(x + t * channels + c) - norm.mean) * load<8>(norm.scale + c) +
                                           load<8>(norm.bias + c));
}

// out (columns, rows padded to 8) = in (rows, columns) transposed; columns is a multiple of 8, `in` has whole vectors
// of rows.
void transpose(const float* in, long in_row, int rows, int columns, float* out, long out_row) {
  for (int r = 0; r < rows; r += 8)
    for (int c = 0; c < columns; c += 8) transpose8(in + r * in_row + c, in_row, out + c * out_row + r, out_row);
}

// Softmax over keys and the product with v, for V vectors of L queries of one head. `out` may be q_t: it is written
// after the scores are done.
template <int L, int V>
void attend(int keys, int depth, const float* q_t, const float* k, long k_row, const float* v, long v_row,
            const float* bias, long padded, float* scores, float* out) {
  constexpr int columns = L * V;
  Vec<L> highest[V], total[V];
  for (int i = 0; i < V; ++i) {
    highest[i] = splat<L>(-1e30f);
    total[i] = Vec<L>{};
  }
  panel<L, V, Finish::plain>(keys, depth, k, k_row, 1, q_t, padded, bias, padded, nullptr, 0, scores, columns, highest);
  for (int key = 0; key < keys; ++key)
    for (int i = 0; i < V; ++i) {
      float* at = scores + key * columns + i * L;
      const Vec<L> e = exp2<L>(load<L>(at) - highest[i]);
      total[i] += e;
      store<L>(at, e);
    }
  panel<L, V, Finish::plain>(depth, keys, v, 1, v_row, scores, columns, kZeros, 0, nullptr, 0, out, padded);
  for (int i = 0; i < V; ++i) total[i] = 1.0f / total[i];
  for (int c = 0; c < depth; ++c)
    for (int i = 0; i < V; ++i) {
      float* at = out + c * padded + i * L;
      store<L>(at, load<L>(at) * total[i]);
    }
}

// All heads and queries of a window; the result replaces q_t.
void attend_window(const AttentionBlock& block, const Scratch& s, const float* k, long k_row) {
  const int C = block.channels, keys = block.window * block.window, depth = C / block.heads;
  const long padded = padded_tokens(block.window);
  for (int head = 0; head < block.heads; ++head) {
    const float *bias = block.bias + head * keys * padded, *k_head = k + head * depth, *v = s.v + head * depth;
    for (int query = 0; query < padded;) {
      const int columns = panel_columns(int(padded) - query);
      float* q_t = s.q_t + head * depth * padded + query;
      if (kWide == 16 && columns == 48)
        attend<kWide, 3>(keys, depth, q_t, k_head, k_row, v, C, bias + query, padded, s.scores, q_t);
      else if (columns == 24)
        attend<8, 3>(keys, depth, q_t, k_head, k_row, v, C, bias + query, padded, s.scores, q_t);
      else
        attend<8, 1>(keys, depth, q_t, k_head, k_row, v, C, bias + query, padded, s.scores, q_t);
      query += columns;
    }
  }
}

void zero(float* from, std::size_t count) { std::memset(from, 0, count * sizeof(float)); }
void copy(float* to, const float* from, std::size_t count) { std::memcpy(to, from, count * sizeof(float)); }

// v of the window with its margin of two tokens, zero outside the picture, into grid; and of the window alone into v.
// `follows`: grid still holds the window to the left, whose last four columns are this one's first four. One product
// over all new columns, as many short ones would fetch the weight as many times.
void project_v_with_margin(const AttentionBlock& block, const Norm& norm, int height, int width, const float* x,
                           const Window& window, bool follows, const Scratch& s) {
  const int C = block.channels, w = block.window, side = w + 4;
  if (follows)
    for (int row = 0; row < side; ++row)
      std::memmove(s.grid + long(row) * side * C, s.grid + (long(row) * side + w) * C, 4 * C * sizeof(float));
  // The picture's rows and new columns that the grid holds, in grid coordinates.
  const int origin_row = window.top - window.row - 2, origin_column = window.left - window.column - 2;
  const int known = follows ? 4 : 0;
  const int first = origin_row < 0 ? -origin_row : 0, left = origin_column + known < 0 ? -origin_column : known;
  const int end = height - origin_row < side ? height - origin_row : side;
  const int right = width - origin_column < side ? width - origin_column : side;
  const int columns = right > left ? right - left : 0, tokens = (end - first) * columns;
  float* fresh = s.margin + std::size_t(side) * side * C;
  for (int row = first; row < end; ++row)
    normalise(norm, x + (long(origin_row + row) * width + origin_column + left) * C, columns, C,
              s.margin + long(row - first) * columns * C);
  matmul<Finish::plain>(tokens, s.margin, C, block.v, nullptr, 0, fresh, C);
  for (int row = 0; row < side; ++row) {
    float* to = s.grid + long(row) * side * C;
    const bool inside = row >= first && row < end && columns > 0;
    if (!inside || left > known || right < side) zero(to + std::size_t(known) * C, std::size_t(side - known) * C);
    if (inside) copy(to + std::size_t(left) * C, fresh + long(row - first) * columns * C, std::size_t(columns) * C);
  }
  for (int row = 0; row < w; ++row)
    copy(s.v + long(row) * w * C, s.grid + (long(row + 2) * side + 2) * C, std::size_t(w) * C);
}

}  // namespace

std::size_t attention_block_scratch(const AttentionBlock& block, int height, int width, int threads) {
  return Arena::bytes(norm_floats(block.channels)) + Arena::bytes(threads * Arena::slice(Scratch::floats(block))) +
         Arena::bytes(Windows(block, height, width).count() * sizeof(Moments) / sizeof(float));
}

void attention_block(const AttentionBlock& block, int height, int width, const float* x, const Moments& moments_in,
                     float* out, Moments* moments, Arena& arena, int threads) {
  const int C = block.channels, w = block.window;
  const long padded = padded_tokens(w);
  const Windows windows(block, height, width);
  const std::size_t position = arena.used();
  const Norm norm = prepare_norm(block, moments_in, arena.floats(norm_floats(C)));
  Moments* parts = reinterpret_cast<Moments*>(arena.floats(windows.count() * sizeof(Moments) / sizeof(float)));
  const std::size_t stride = Arena::slice(Scratch::floats(block));
  float* scratch = arena.floats(stride * threads);

  const auto one_window = [&](int index, bool follows, const Scratch& s) {
    const Window window = windows.at(index, block, height, width);
    const int tokens = window.tokens(), columns = window.columns();
    const bool whole = tokens == w * w;
    const auto picture_row = [&](int row) { return (long(window.top + row) * width + window.left) * C; };

    for (int row = 0; row < window.rows(); ++row)
      normalise(norm, x + picture_row(row), columns, C, s.normed + long(row) * columns * C);
    matmul<Finish::plain>(tokens, s.normed, C, block.qk, nullptr, 0, s.qk, 2 * C);
    if (block.convolves) {
      project_v_with_margin(block, norm, height, width, x, window, follows, s);
    } else if (whole) {
      matmul<Finish::plain>(tokens, s.normed, C, block.v, nullptr, 0, s.v, C);
    } else {
      zero(s.v, std::size_t(w) * w * C);
      for (int row = 0; row < window.rows(); ++row)
        matmul<Finish::plain>(columns, s.normed + long(row) * columns * C, C, block.v, nullptr, 0,
                              s.v + (long(window.row + row) * w + window.column) * C, C);
    }

    const float* qk = s.qk;
    if (!whole) {
      zero(s.full, std::size_t(w) * w * 2 * C);
      for (int row = 0; row < window.rows(); ++row)
        copy(s.full + (long(window.row + row) * w + window.column) * 2 * C, s.qk + long(row) * columns * 2 * C,
             std::size_t(columns) * 2 * C);
      qk = s.full;
    }
    zero(const_cast<float*>(qk) + long(w) * w * 2 * C, (padded - w * w) * 2 * C);  // lanes beyond the last query
    transpose(qk, 2 * C, int(padded), C, s.q_t, padded);
    attend_window(block, s, qk + C, 2 * C);

    // Back to tokens: transposed, then only those inside the picture.
    float* mixed = s.full;
    for (int c = 0; c < C; c += 8)
      for (int t = 0; t < padded; t += 8) transpose8(s.q_t + c * padded + t, padded, mixed + long(t) * C + c, C);
    if (!whole)
      for (int row = 0; row < window.rows(); ++row)
        std::memmove(mixed + long(row) * columns * C, mixed + (long(window.row + row) * w + window.column) * C,
                     std::size_t(columns) * C * sizeof(float));
    if (block.convolves) {
      const int side = w + 4;
      for (int row = 0; row < window.rows(); ++row) {
        const float* rows[5];
        for (int dy = 0; dy < 5; ++dy) rows[dy] = s.grid + (long(window.row + row + dy) * side + window.column) * C;
        depthwise_row(rows, columns, C, block.conv, s.out, C);
        float* to = mixed + long(row) * columns * C;
        for (int i = 0; i < columns * C; i += 8) store<8>(to + i, load<8>(to + i) + load<8>(s.out + i));
      }
    }

    float* y = s.normed;
    matmul<Finish::plain>(tokens, mixed, C, block.proj, nullptr, 0, y, C);
    for (int row = 0; row < window.rows(); ++row)
      for (int column = 0; column < columns; ++column) {
        const float* from = x + picture_row(row) + long(column) * C;
        float* to = y + (long(row) * columns + column) * C;
        for (int c = 0; c < C; c += 8)
          store<8>(to + c, load<8>(from + c) +
                               (load<8>(norm.rescale + c) * load<8>(to + c) + load<8>(norm.rebias + c)));
      }
    mlp_residual(block.mlp, tokens, C, y, s.hidden, s.out);
    for (int row = 0; row < window.rows(); ++row)
      copy(out + picture_row(row), s.out + long(row) * columns * C, std::size_t(columns) * C);
    if (moments) parts[index] = moments_of(s.out, long(tokens) * C);
  };
  const int per_task = windows.per_task(threads), tasks_per_row = (windows.columns + per_task - 1) / per_task;
  parallel(threads, windows.rows * tasks_per_row, [&](int task, int worker) {
    const Scratch s(block, scratch + worker * stride);
    const int start = task % tasks_per_row * per_task;
    for (int column = start; column < windows.columns && column < start + per_task; ++column)
      one_window(task / tasks_per_row * windows.columns + column, column > start, s);
  });

  if (moments) {
    *moments = Moments{0, 0, 0};
    for (int i = 0; i < windows.count(); ++i) combine(*moments, parts[i]);
  }
  arena.rewind(position);
}

#endif

}  // namespace SMF_ISA
}  // namespace smf
