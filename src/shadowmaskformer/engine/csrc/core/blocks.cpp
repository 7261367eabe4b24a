#include "core/blocks.h"

namespace smf {

void combine(Moments& total, const Moments& part) {
  if (part.count == 0) return;
  const double count = total.count + part.count, delta = part.mean - total.mean;
  total.squares += part.squares + delta * delta * total.count * part.count / count;
  total.mean += delta * part.count / count;
  total.count = count;
}

void expand_position_bias(const float* table, int heads, int window, float* out) {
  const int tokens = window * window, padded = padded_tokens(window), reach = 2 * window - 1;
  for (int head = 0; head < heads; ++head)
    for (int key = 0; key < tokens; ++key)
      for (int query = 0; query < padded; ++query) {
        const int row = query / window - key / window + window - 1, column = query % window - key % window + window - 1;
        *out++ = query < tokens ? float(kLog2E * table[(row * reach + column) * heads + head]) : 0.0f;
      }
}

}  // namespace smf
