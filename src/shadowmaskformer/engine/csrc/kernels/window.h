// Attention windows: where they lie on a map, their tokens, and the softmax of one head.
#pragma once

#include "kernels/gemm.h"
#include "kernels/scratch.h"

namespace smf {
namespace SMF_ISA {

// The part of a window inside the picture, in picture coordinates, and its place in the window.
struct Window {
  int top, bottom, left, right;
  int row, column;  // of (top, left) within the window
  SMF_INLINE int rows() const { return bottom - top; }
  SMF_INLINE int columns() const { return right - left; }
  SMF_INLINE int tokens() const { return rows() * columns(); }
};

// The windows of side `window` that tile the plane from (-shift, -shift) and meet a picture.
struct Windows {
  int window, shift, height, width, rows, columns;
  SMF_INLINE Windows(int window, int shift, int height, int width)
      : window(window),
        shift(shift),
        height(height),
        width(width),
        rows((height + shift + window - 1) / window),
        columns((width + shift + window - 1) / window) {}
  SMF_INLINE int count() const { return rows * columns; }
  SMF_INLINE Window at(int index) const {
    const int top = index / columns * window - shift, left = index % columns * window - shift;
    Window part;
    part.top = larger(top, 0);
    part.left = larger(left, 0);
    part.bottom = smaller(top + window, height);
    part.right = smaller(left + window, width);
    part.row = part.top - top;
    part.column = part.left - left;
    return part;
  }
};

// The window's part of a map (rows `map_row` floats apart) to tokens without gaps, and back.
SMF_INLINE void gather(const Window& window, int channels, const float* map, long map_row, float* tokens) {
  const long line = long(window.columns()) * channels;
  for (int row = 0; row < window.rows(); ++row)
    copy(tokens + row * line, map + (window.top + row) * map_row + long(window.left) * channels, line);
}
SMF_INLINE void scatter(const Window& window, int channels, const float* tokens, float* map, long map_row) {
  const long line = long(window.columns()) * channels;
  for (int row = 0; row < window.rows(); ++row)
    copy(map + (window.top + row) * map_row + long(window.left) * channels, tokens + row * line, line);
}

// Softmax over keys and the product with v, for V vectors of L queries of one head; scores are in powers of two.
//
// Queries lie on the lanes and keys along memory, so maximum and sum need no shuffles: scores are S^T[key][query]. q_t,
// bias and out have rows `padded` floats apart. Keys from `tokens` on have k = v = 0: only their bias counts. `scores`,
// rows `scores_row` apart, keeps the softmax without its denominator; `inverse`, if not null, receives 1 / denominator.
// `out` may be q_t: it is written after the scores are done.
template <int L, int V>
__attribute__((noinline)) void attend(int tokens, int keys, int depth, const float* q_t, const float* k, long k_row,
                                      const float* v, long v_row, const float* bias, long padded, float* scores,
                                      long scores_row, float* inverse, float* out) {
  Vec<L> highest[V], total[V];
  for (int i = 0; i < V; ++i) {
    highest[i] = splat<L>(-1e30f);
    total[i] = Vec<L>{};
  }
  panel<L, V, Finish::plain>(tokens, depth, k, k_row, 1, q_t, padded, {nullptr, bias, padded}, scores, scores_row,
                             highest);
  for (int key = tokens; key < keys; ++key)
    for (int i = 0; i < V; ++i) {
      const Vec<L> score = load<L>(bias + key * padded + i * L);
      highest[i] = max<L>(highest[i], score);
      store<L>(scores + key * scores_row + i * L, score);
    }
  for (int key = 0; key < keys; ++key)
    for (int i = 0; i < V; ++i) {
      float* at = scores + key * scores_row + i * L;
      const Vec<L> e = exp2<L>(load<L>(at) - highest[i]);
      total[i] += e;
      store<L>(at, e);
    }
  panel<L, V, Finish::plain>(depth, tokens, v, 1, v_row, scores, scores_row, {}, out, padded);
  for (int i = 0; i < V; ++i) {
    total[i] = 1.0f / total[i];
    if (inverse) store<L>(inverse + i * L, total[i]);
  }
  for (int c = 0; c < depth; ++c)
    for (int i = 0; i < V; ++i) {
      float* at = out + c * padded + i * L;
      store<L>(at, load<L>(at) * total[i]);
    }
}

}  // namespace SMF_ISA
}  // namespace smf
