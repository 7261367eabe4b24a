// Window attention on one window, forward and backward, for training.
//
// Scratch per part, with n = window² rounded up to eight, C channels: about (16·C + 2·hidden share + heads·n + n)·n
// floats; 1 MB at the deepest stage.
#pragma once

#include <cmath>

#include "kernels/training_tiles.h"

namespace smf {
namespace SMF_ISA {

constexpr float kLog2E = 1.44269504f;

// Where a window lies on the picture, cut to it.
struct WindowPlace {
  int sample;
  int y, x;           // its first real token
  int rows, columns;  // of real tokens
  int top, left;      // padded rows and columns before the first real token
};

SMF_INLINE int window_tokens(const AttentionShape& shape) { return shape.window * shape.window; }
SMF_INLINE int padded_window(const AttentionShape& shape) {
  return (window_tokens(shape) + kLanes - 1) / kLanes * kLanes;
}
SMF_INLINE long position_size(const AttentionShape& shape) {
  return long(shape.heads) * window_tokens(shape) * padded_window(shape);
}
SMF_INLINE long table_size(const AttentionShape& shape) {
  return long(2 * shape.window - 1) * (2 * shape.window - 1) * shape.heads;
}
SMF_INLINE float query_scale(const AttentionShape& shape) {
  return 1.0f / std::sqrt(float(shape.tokens.channels / shape.heads));
}

// The table as (heads, key, padded query); padding is 0. Neighbouring queries lie side by side in both.
SMF_INLINE void expand_positions(const AttentionShape& shape, const float* table, float* position) {
  const int side = shape.window, reach = 2 * side - 1, heads = shape.heads, padding = padded_window(shape) - side * side;
  for (int head = 0; head < heads; ++head)
    for (int key_y = 0; key_y < side; ++key_y)
      for (int key_x = 0; key_x < side; ++key_x) {
        for (int y = side - 1 - key_y; y < 2 * side - 1 - key_y; ++y) {
          const float* from = table + long(y * reach + side - 1 - key_x) * heads + head;
          for (int x = 0; x < side; ++x) *position++ = from[x * heads];
        }
        for (int i = 0; i < padding; ++i) *position++ = 0;
      }
}

// The table's gradient from that of the pairs.
SMF_INLINE void collect_positions(const AttentionShape& shape, const float* dposition, float* dtable) {
  const int side = shape.window, reach = 2 * side - 1, heads = shape.heads, padding = padded_window(shape) - side * side;
  for (int head = 0; head < heads; ++head)
    for (int key_y = 0; key_y < side; ++key_y)
      for (int key_x = 0; key_x < side; ++key_x) {
        for (int y = side - 1 - key_y; y < 2 * side - 1 - key_y; ++y) {
          float* to = dtable + long(y * reach + side - 1 - key_x) * heads + head;
          for (int x = 0; x < side; ++x) to[x * heads] += *dposition++;
        }
        dposition += padding;
      }
}

// Calls body(place) for the windows of part `part`: consecutive windows with about equal numbers of real tokens.
template <class Body>
SMF_INLINE void for_windows_of_part(const AttentionShape& shape, int part, int parts, const Body& body) {
  const TokenShape& map = shape.tokens;
  const int side = shape.window;
  const long total = long(map.batch) * map.height * map.width;
  long before = 0;
  for (int sample = 0; sample < map.batch; ++sample)
    for (int y = -shape.shift; y < map.height; y += side)
      for (int x = -shape.shift; x < map.width; x += side) {
        WindowPlace at;
        at.sample = sample;
        at.y = std::max(y, 0);
        at.x = std::max(x, 0);
        at.top = at.y - y;
        at.left = at.x - x;
        at.rows = std::min(y + side, map.height) - at.y;
        at.columns = std::min(x + side, map.width) - at.x;
        const long count = long(at.rows) * at.columns, middle = 2 * before + count;
        before += count;
        if (middle * parts / (2 * total) == part) body(at);
      }
}

// Arrays of a window. Token arrays are (n, C) and transposed ones (C, n), with n = padded_window.
struct WindowScratch {
  float *x, *normed, *qk, *v, *query_t, *attended_t, *a, *o, *y1, *h;
  float *scores;          // (heads, key, n); softmax without its denominator, then, in backward, with it
  float *inverse;         // (heads, n): 1 / the denominator
  float *cut_position;    // (heads, key, n): the position bias of a cut window
  float *dy, *dy1, *dh, *da, *da_t, *dqk, *dv, *dquery_t, *dscores, *dhead;
  long used;

  WindowScratch(float* memory, const AttentionShape& shape, bool backward) {
    const long n = padded_window(shape), channels = shape.tokens.channels, tokens = n * channels;
    const long hidden = tile_tokens(shape.hidden) * padded_row(shape.hidden);
    Slices slices(memory);
    for (float** array : {&x, &normed, &v, &query_t, &attended_t, &a, &o, &y1}) *array = slices.take(tokens);
    qk = slices.take(2 * tokens);
    h = slices.take(hidden);
    scores = slices.take(position_size(shape));
    cut_position = slices.take(position_size(shape));
    inverse = slices.take(shape.heads * n);
    dy = dy1 = dh = da = da_t = dqk = dv = dquery_t = dscores = dhead = nullptr;
    if (backward) {
      for (float** array : {&dy, &dy1, &da, &da_t, &dv, &dquery_t}) *array = slices.take(tokens);
      dqk = slices.take(2 * tokens);
      dh = slices.take(hidden);
      dscores = slices.take(n * n);
      dhead = slices.take(tokens + n * kLanes);
    }
    used = slices.used();
  }
};

// (n, columns) with rows `in_row` apart to (columns, n), and back. n and columns are rounded up to eight.
SMF_INLINE void transpose(int n, int columns, const float* in, long in_row, float* out, long out_row) {
  for (int i = 0; i < n; i += 8)
    for (int j = 0; j < columns; j += 8) transpose8(in + i * in_row + j, in_row, out + j * out_row + i, out_row);
}

// Zero the rows from `tokens` to the next multiple of eight.
SMF_INLINE void clear_padding(int tokens, int columns, float* x, long x_row) {
  for (int t = tokens; t % kLanes; ++t) std::memset(x + t * x_row, 0, columns * sizeof(float));
}

// Calls body(slot within the window, number among the tokens, length) for each run of real tokens without a gap.
template <class Body>
SMF_INLINE void for_runs(const WindowPlace& at, int side, const Body& body) {
  if (at.columns == side) return body(at.top * side, 0, at.rows * side);
  for (int y = 0; y < at.rows; ++y) body((at.top + y) * side + at.left, y * at.columns, at.columns);
}

// Calls body(slot, number) for all keys: real tokens are numbered first, padded ones after them.
template <class Body>
SMF_INLINE void for_keys(const WindowPlace& at, int side, const Body& body) {
  int real = 0, padded = at.rows * at.columns;
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      const bool inside = y >= at.top && y < at.top + at.rows && x >= at.left && x < at.left + at.columns;
      body(y * side + x, inside ? real++ : padded++);
    }
}

// Softmax over the rows of a (keys, 8·kVecs) block, but for the division; returns the denominators' inverses.
template <int kVecs>
SMF_INLINE void exponentiate(int keys, float* scores, long row, float* inverse) {
  Lane8 highest[kVecs], total[kVecs];
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    highest[v] = load<kLanes>(scores + v * kLanes);
    total[v] = Lane8{};
  }
  for (int key = 1; key < keys; ++key)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) highest[v] = max<kLanes>(highest[v], load<kLanes>(scores + key * row + v * kLanes));
  for (int key = 0; key < keys; ++key)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      float* at = scores + key * row + v * kLanes;
      const Lane8 value = exp2<kLanes>((load<kLanes>(at) - highest[v]) * kLog2E);
      total[v] += value;
      store<kLanes>(at, value);
    }
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) store<kLanes>(inverse + v * kLanes, 1.0f / total[v]);
}

// Calls body(first column, vectors as a constant) for blocks of three and two vectors that cover `columns`.
template <class Body>
SMF_INLINE void for_query_blocks(int columns, const Body& body) {
  int column = 0;
  for (; columns - column >= 24 && columns - column != 32; column += 24)
    body(column, std::integral_constant<int, 3>{});
  for (; columns - column >= 16; column += 16) body(column, std::integral_constant<int, 2>{});
  if (column < columns) body(column, std::integral_constant<int, 1>{});
}

// a = softmax(Q·Kᵀ + position)·V from s.qk and s.v; leaves scores, inverse, query_t and attended_t for backward.
SMF_INLINE void attend(const AttentionShape& shape, const WindowPlace& at, const float* position,
                       const WindowScratch& s) {
  const int channels = shape.tokens.channels, depth = channels / shape.heads, side = shape.window;
  const int tokens = at.rows * at.columns, keys = side * side, columns = (tokens + kLanes - 1) / kLanes * kLanes;
  const long n = padded_window(shape);
  clear_padding(tokens, channels, s.qk, 2 * channels);
  transpose(columns, channels, s.qk, 2 * channels, s.query_t, n);
  for (int head = 0; head < shape.heads; ++head) {
    const long first = long(head) * depth;
    const float* bias = position + head * keys * n;
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
    float* scores = s.scores + head * keys * n;
    float* inverse = s.inverse + head * n;
    for_query_blocks(columns, [&](int column, auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      Terms terms{};
      terms.init = bias;
      terms.init_row = n;
      gemm_panel<kVecs, false, After::nothing>(tokens, depth, s.qk + channels + first, 2 * channels,
                                               s.query_t + first * n + column, n, scores + column, n, terms, column);
      for (int key = tokens; key < keys; ++key)
        std::memcpy(scores + key * n + column, bias + key * n + column, kVecs * kLanes * sizeof(float));
      exponentiate<kVecs>(keys, scores + column, n, inverse + column);
      float* attended = s.attended_t + first * n + column;
      gemm_panel<kVecs, true, After::nothing>(depth, tokens, s.v + first, channels, scores + column, n, attended, n,
                                              Terms{}, 0);
      for (int c = 0; c < depth; ++c)
        for (int v = 0; v < kVecs; ++v) {
          float* value = attended + c * n + v * kLanes;
          store<kLanes>(value, load<kLanes>(value) * load<kLanes>(inverse + column + v * kLanes));
        }
    });
  }
  transpose(channels, columns, s.attended_t, n, s.a, channels);
}

// dqk, dv and the gradient of the position bias (added to `dposition`, by slot) from da.
SMF_INLINE void attend_backward(const AttentionShape& shape, const WindowPlace& at, const WindowScratch& s,
                                float* dposition) {
  const int channels = shape.tokens.channels, depth = channels / shape.heads, side = shape.window;
  const int tokens = at.rows * at.columns, keys = side * side, columns = (tokens + kLanes - 1) / kLanes * kLanes;
  const int depth8 = (depth + kLanes - 1) / kLanes * kLanes;
  const long n = padded_window(shape);
  clear_padding(tokens, channels, s.da, channels);
  transpose(columns, channels, s.da, channels, s.da_t, n);
  for (int head = 0; head < shape.heads; ++head) {
    const long first = long(head) * depth;
    float* scores = s.scores + head * keys * n;
    const float* inverse = s.inverse + head * n;
    float* dbias = dposition + head * keys * n;
    for_query_blocks(columns, [&](int column, auto vecs) {
      constexpr int kVecs = decltype(vecs)::value;
      float* dscores = s.dscores + column;
      gemm_panel<kVecs, false, After::nothing>(tokens, depth, s.v + first, channels, s.da_t + first * n + column, n,
                                               dscores, n, Terms{}, 0);
      for (int key = tokens; key < keys; ++key) std::memset(dscores + key * n, 0, kVecs * kLanes * sizeof(float));
      // dS = P·(dP − Σ P·dP), and Σ over keys of P·dP is Σ over channels of a·da.
      Lane8 mean[kVecs], scale[kVecs];
      for (int v = 0; v < kVecs; ++v) {
        mean[v] = Lane8{};
        scale[v] = load<kLanes>(inverse + column + v * kLanes);
        for (long c = first; c < first + depth; ++c)
          mean[v] += load<kLanes>(s.da_t + c * n + column + v * kLanes) *
                     load<kLanes>(s.attended_t + c * n + column + v * kLanes);
      }
      for (int key = 0; key < keys; ++key)
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const long i = key * n + v * kLanes;
          const Lane8 weight = load<kLanes>(scores + column + i) * scale[v];
          const Lane8 d = weight * (load<kLanes>(dscores + i) - mean[v]);
          store<kLanes>(scores + column + i, weight);
          store<kLanes>(dscores + i, d);
          if (tokens == keys) store<kLanes>(dbias + column + i, load<kLanes>(dbias + column + i) + d);
        }
      gemm_panel<kVecs, true, After::nothing>(depth, tokens, s.qk + channels + first, 2 * channels, dscores, n,
                                              s.dquery_t + first * n + column, n, Terms{}, 0);
    });
    if (tokens < keys)
      for_keys(at, side, [&](int key, int number) {
        for_runs(at, side, [&](int slot, int token, int length) {
          for (int i = 0; i < length; ++i) dbias[key * n + slot + i] += s.dscores[number * n + token + i];
        });
      });
    // Heads of 12 channels are not whole vectors: through an array of their own, lest they spill over the next head.
    const auto along_keys = [&](const float* weights, const float* operand, long operand_row, float* out, long out_row) {
      gemm(tokens, depth8, tokens, weights, n, plain(operand, operand_row), s.dhead, depth8);
      for (int t = 0; t < tokens; ++t) std::memcpy(out + t * out_row, s.dhead + long(t) * depth8, depth * sizeof(float));
    };
    along_keys(s.dscores, s.qk + first, 2 * channels, s.dqk + channels + first, 2 * channels);
    along_keys(scores, s.da + first, channels, s.dv + first, channels);
  }
  transpose(channels, columns, s.dquery_t, n, s.dqk, 2 * channels);
}

}  // namespace SMF_ISA
}  // namespace smf
