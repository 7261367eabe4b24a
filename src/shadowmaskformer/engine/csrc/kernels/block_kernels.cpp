// The table of block kernels of one instruction set.
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {

std::size_t conv_block_scratch(const ConvBlock&, int height, int width, int threads);
void conv_block(const ConvBlock&, int height, int width, const float* x, float* out, Moments* moments, Arena&,
                int threads);
std::size_t attention_block_scratch(const AttentionBlock&, int height, int width, int threads);
void attention_block(const AttentionBlock&, int height, int width, const float* x, const Moments& norm, float* out,
                     Moments* moments, Arena&, int threads);

namespace {

Moments moments_of_map(const float* x, std::size_t count) {
  constexpr std::size_t kPart = 4096;  // short enough for sums in float
  Moments total{0, 0, 0};
  for (std::size_t i = 0; i < count; i += kPart)
    combine(total, moments_of(x + i, long(count - i < kPart ? count - i : kPart)));
  return total;
}

#if defined(SMF_ISA_scalar)
// The plain loops read weights as they are, (outputs, inputs).
void pack_weight(const float* weight, int outputs, int inputs, long row, long column, float* packed) {
  for (int n = 0; n < (outputs + 7) / 8 * 8; ++n)
    for (int k = 0; k < inputs; ++k) *packed++ = n < outputs ? weight[n * row + k * column] : 0.0f;
}
#else
void pack_weight(const float* weight, int outputs, int inputs, long row, long column, float* packed) {
  pack(weight, outputs, inputs, row, column, packed);
}
#endif

}  // namespace

extern const BlockKernels block_kernels = {pack_weight,     conv_block_scratch,      conv_block,
                                           attention_block_scratch, attention_block, moments_of_map};

}  // namespace SMF_ISA
}  // namespace smf
