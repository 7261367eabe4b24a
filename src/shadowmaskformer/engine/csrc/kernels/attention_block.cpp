// Attention block:  y = x + rescale * proj(softmax(q k^T / sqrt(d) + bias) v [+ dw5x5(v)]) + rebias
//                   out = y + W2 relu(W1 y + b1) + b2
// with q, k, v linear in n = (x - mean) / std, mean and std over the whole map, rescale and rebias
// linear in std and mean (the rescaled layer norm).
//
// Windows    of side w tile the plane from (-shift, -shift). Tokens of a window outside the picture have q = k = v = 0
//            (zero, not the layers' bias): they take part in the softmax as keys and are dropped as queries.
// Layout     x, out (H, W, C), channels last. Inside a window the softmax has queries on the lanes and keys along
//            memory, so maximum and sum need no shuffles: scores are S^T[key][query], computed for a panel of queries at
//            a time, 10 KiB that stay in the first-level cache from q k^T to the product with v.
// Threads    A few windows of a row are a task: beside each other, they share the margin that the convolution branch
//            needs around v. Tasks share nothing but their input; any number of threads gives the same bits.
// Fusion     A window passes from normalisation to the end of the MLP in cache, so x is read once and out written
//            once; separate operators would write and read the map about fifteen times, heads * w**2 / C times as
//            wide for the scores. The moments for the next block's norm are taken from the window on its way out.
// Speed      54 % (24 channels) to 75 % (96) of the peak of multiply-adds (one core, AVX2); a seventh of the time at
//            24 channels goes into powers of two.
// Scratch    per thread: about (w**2 + 8) (7 C + 96) floats, and 3 (w + 4)**2 C with the convolution branch.
#include <cmath>

#include "core/threads.h"
#include "kernels/depthwise.h"
#include "kernels/pieces.h"
#include "kernels/window.h"

namespace smf {
namespace SMF_ISA {

#if defined(SMF_ISA_scalar)

std::size_t attention_block_scratch(const AttentionBlock& block, int height, int width, int) {
  const std::size_t pixels = std::size_t(height) * width;
  return 4 * Arena::bytes(pixels * block.channels) + 2 * Arena::bytes(block.channels) +
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
  float *rescale = arena.floats(C), *rebias = arena.floats(C);
  const Norm norm = make_norm(block, moments_in, rescale, rebias);
  float* scores = arena.floats(std::size_t(w) * w);
  float* hidden = arena.floats(block.mlp.first.outputs);
  float* token = arena.floats(2 * C);
  for (long p = 0; p < pixels; ++p) {
    for (int c = 0; c < C; ++c) token[c] = (x[p * C + c] - norm.mean) / norm.std;
    scalar_linear(block.qk, token, qk + p * 2 * C);
    scalar_linear(block.v, token, v + p * C);
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
        for (int c = 0; c < C; ++c)
          mixed[p * C + c] += scalar_depthwise(block.conv, height, width, C, v, row, column, c);
    }
  for (long p = 0; p < pixels; ++p) {
    float* y = token;
    scalar_linear(block.proj, mixed + p * C, y);
    for (int c = 0; c < C; ++c) y[c] = x[p * C + c] + norm.rescale[c] * y[c] + norm.rebias[c];
    scalar_mlp_residual(block.mlp, y, hidden, out + p * C);
  }
  if (moments) *moments = moments_of_map(out, pixels * C, 1);
  arena.rewind(position);
}

#else

namespace {

// How many neighbours make a task: up to eight, while there are several tasks for every thread.
int windows_per_task(const Windows& windows, int threads) {
  return smaller(smaller(larger(windows.count() / (4 * threads), 1), 8), windows.columns);
}

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
  std::size_t used;

  Scratch(const AttentionBlock& block, float* memory) {
    const std::size_t C = block.channels, padded = padded_tokens(block.window), side = block.window + 4;
    Slices slices(memory);
    normed = slices.take(padded * C);
    qk = slices.take(padded * 2 * C);
    v = slices.take(padded * C);
    full = slices.take(padded * 2 * C);
    q_t = slices.take(padded * C);
    scores = slices.take(padded * kWidestPanel);
    hidden = slices.take(mlp_scratch(block.mlp, int(padded)));
    out = slices.take(padded * C);
    grid = slices.take(block.convolves ? side * side * C : 0);
    margin = slices.take(block.convolves ? 2 * side * side * C : 0);
    used = slices.used();
  }
};

// All heads and queries of a window; the result replaces q_t.
void attend_window(const AttentionBlock& block, const Scratch& s, const float* k, long k_row) {
  const int C = block.channels, keys = block.window * block.window, depth = C / block.heads;
  const long padded = padded_tokens(block.window);
  for (int head = 0; head < block.heads; ++head) {
    const float *bias = block.bias + head * keys * padded, *k_head = k + head * depth, *v = s.v + head * depth;
    for_panels(int(padded), [&](int query, auto shape) {
      float* q_t = s.q_t + head * depth * padded + query;
      attend<shape.lanes, shape.vectors>(keys, keys, depth, q_t, k_head, k_row, v, C, bias + query, padded, s.scores,
                                         shape.columns, nullptr, q_t);
    });
  }
}

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
  const int first = larger(-origin_row, 0), left = larger(-origin_column, known);
  const int end = smaller(height - origin_row, side), right = smaller(width - origin_column, side);
  const int columns = larger(right - left, 0), tokens = (end - first) * columns;
  float* fresh = s.margin + std::size_t(side) * side * C;
  for (int row = first; row < end; ++row)
    normalise(norm, long(columns) * C, x + (long(origin_row + row) * width + origin_column + left) * C,
              s.margin + long(row - first) * columns * C);
  linear(tokens, s.margin, C, block.v, fresh, C);
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
  const Windows windows(block.window, block.shift, height, width);
  return 2 * Arena::bytes(block.channels) + Arena::bytes(threads * Arena::slice(Scratch(block, nullptr).used)) +
         Arena::bytes(windows.count() * sizeof(Moments) / sizeof(float));
}

void attention_block(const AttentionBlock& block, int height, int width, const float* x, const Moments& moments_in,
                     float* out, Moments* moments, Arena& arena, int threads) {
  const int C = block.channels, w = block.window;
  const long padded = padded_tokens(w), map_row = long(width) * C;
  const Windows windows(w, block.shift, height, width);
  const std::size_t position = arena.used();
  float *rescale = arena.floats(C), *rebias = arena.floats(C);
  const Norm norm = make_norm(block, moments_in, rescale, rebias);
  Moments* parts = reinterpret_cast<Moments*>(arena.floats(windows.count() * sizeof(Moments) / sizeof(float)));
  const std::size_t stride = Arena::slice(Scratch(block, nullptr).used);
  float* scratch = arena.floats(stride * threads);

  const auto one_window = [&](int index, bool follows, const Scratch& s) {
    const Window window = windows.at(index);
    const int tokens = window.tokens(), columns = window.columns();
    const bool whole = tokens == w * w;
    // The window's tokens within all w x w of it.
    const Window place{window.row, window.row + window.rows(), window.column, window.column + columns, 0, 0};
    const long line = long(columns) * C;
    const auto picture_row = [&](int row) { return x + (window.top + row) * map_row + long(window.left) * C; };

    for (int row = 0; row < window.rows(); ++row) normalise(norm, line, picture_row(row), s.normed + row * line);
    linear(tokens, s.normed, C, block.qk, s.qk, 2 * C);
    if (block.convolves) {
      project_v_with_margin(block, norm, height, width, x, window, follows, s);
    } else if (whole) {
      linear(tokens, s.normed, C, block.v, s.v, C);
    } else {
      linear(tokens, s.normed, C, block.v, s.out, C);
      zero(s.v, std::size_t(w) * w * C);
      scatter(place, C, s.out, s.v, long(w) * C);
    }

    const float* qk = s.qk;
    if (!whole) {
      zero(s.full, std::size_t(w) * w * 2 * C);
      scatter(place, 2 * C, s.qk, s.full, long(w) * 2 * C);
      qk = s.full;
    }
    zero(const_cast<float*>(qk) + long(w) * w * 2 * C, (padded - w * w) * 2 * C);  // lanes beyond the last query
    transpose(int(padded), C, qk, 2 * C, s.q_t, padded);
    attend_window(block, s, qk + C, 2 * C);

    // Back to tokens: transposed, then only those inside the picture.
    float* mixed = s.full;
    transpose(C, int(padded), s.q_t, padded, mixed, C);
    if (!whole) {
      mixed = s.qk;
      gather(place, C, s.full, long(w) * C, mixed);
    }
    if (block.convolves) {
      const int side = w + 4;
      for (int row = 0; row < window.rows(); ++row) {
        const float* rows[5];
        for (int dy = 0; dy < 5; ++dy) rows[dy] = s.grid + (long(window.row + row + dy) * side + window.column) * C;
        depthwise_row(rows, columns, C, block.conv, s.out);
        float* to = mixed + row * line;
        for (long i = 0; i < line; i += 8) store<8>(to + i, load<8>(to + i) + load<8>(s.out + i));
      }
    }

    float* y = s.normed;
    linear(tokens, mixed, C, block.proj, y, C);
    for (int row = 0; row < window.rows(); ++row)
      add_rescaled(norm, columns, C, picture_row(row), y + row * line, y + row * line);
    mlp_residual(block.mlp, tokens, y, s.hidden, s.out);
    scatter(window, C, s.out, out, map_row);
    if (moments) parts[index] = moments_of(s.out, long(tokens) * C);
  };
  const int per_task = windows_per_task(windows, threads), tasks_per_row = (windows.columns + per_task - 1) / per_task;
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
