// The training operators for Python. ops.py checks types and sizes and passes addresses: a block has up to 19 tensors, and
// wrapping each in an array object took longer than a small block's arithmetic.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/training.h"

namespace nb = nanobind;

namespace {

using Address = std::uintptr_t;
using Addresses = std::vector<Address>;
using Shape = std::array<int, 4>;

template <class T>
class Reader {
 public:
  explicit Reader(const Addresses& addresses, std::size_t expected) : addresses_(addresses) {
    if (addresses.size() != expected) throw std::invalid_argument("wrong number of tensors for this block");
  }
  T* next() { return reinterpret_cast<T*>(addresses_[at_++]); }

 private:
  const Addresses& addresses_;
  std::size_t at_ = 0;
};

template <class T>
smf::MlpTensors<T> read_mlp(Reader<T>& reader) {
  smf::MlpTensors<T> mlp;
  for (T** tensor : {&mlp.mlp0_w, &mlp.mlp0_b, &mlp.mlp2_w, &mlp.mlp2_b}) *tensor = reader.next();
  return mlp;
}

template <class T>
smf::ConvBlockTensors<T> read_conv_block(const Addresses& addresses) {
  Reader<T> reader(addresses, 10);
  smf::ConvBlockTensors<T> block;
  for (T** tensor : {&block.v_w, &block.v_b, &block.conv_w, &block.conv_b, &block.proj_w, &block.proj_b})
    *tensor = reader.next();
  block.mlp = read_mlp(reader);
  return block;
}

template <class T>
smf::AttentionBlockTensors<T> read_attention_block(const Addresses& addresses) {
  Reader<T> reader(addresses, 17);
  smf::AttentionBlockTensors<T> block;
  for (T** tensor : {&block.norm_w, &block.norm_b, &block.meta1_w, &block.meta1_b, &block.meta2_w, &block.meta2_b,
                     &block.qkv_w, &block.qkv_b, &block.conv_w, &block.conv_b, &block.bias_table, &block.proj_w,
                     &block.proj_b})
    *tensor = reader.next();
  block.mlp = read_mlp(reader);
  return block;
}

smf::TokenShape token_shape(const Shape& shape) { return {shape[0], shape[1], shape[2], shape[3]}; }
const float* in(Address address) { return reinterpret_cast<const float*>(address); }
float* out(Address address) { return reinterpret_cast<float*>(address); }

}  // namespace

void bind_training(nb::module_& module) {
  module.def(
      "conv_block_forward",
      [](const Shape& shape, int hidden, Address x, const Addresses& weights, Address y) {
        const auto block = read_conv_block<const float>(weights);
        nb::gil_scoped_release unlocked;
        smf::conv_block_forward(token_shape(shape), hidden, in(x), block, out(y));
      },
      nb::arg("shape"), nb::arg("hidden"), nb::arg("x"), nb::arg("weights"), nb::arg("y"));
  module.def(
      "conv_block_backward",
      [](const Shape& shape, int hidden, Address x, Address dy, const Addresses& weights, Address dx,
         const Addresses& gradients) {
        const auto block = read_conv_block<const float>(weights);
        const auto sums = read_conv_block<float>(gradients);
        nb::gil_scoped_release unlocked;
        smf::conv_block_backward(token_shape(shape), hidden, in(x), in(dy), block, out(dx), sums);
      },
      nb::arg("shape"), nb::arg("hidden"), nb::arg("x"), nb::arg("dy"), nb::arg("weights"), nb::arg("dx"),
      nb::arg("gradients"));
  module.def(
      "attention_block_forward",
      [](const Shape& shape, int hidden, int heads, int window, int shift, Address x, const Addresses& weights,
         Address y) {
        const auto block = read_attention_block<const float>(weights);
        nb::gil_scoped_release unlocked;
        smf::attention_block_forward({token_shape(shape), hidden, heads, window, shift}, in(x), block,
                                                     out(y));
      },
      nb::arg("shape"), nb::arg("hidden"), nb::arg("heads"), nb::arg("window"), nb::arg("shift"), nb::arg("x"),
      nb::arg("weights"), nb::arg("y"));
  module.def(
      "attention_block_backward",
      [](const Shape& shape, int hidden, int heads, int window, int shift, Address x, Address dy,
         const Addresses& weights, Address dx, const Addresses& gradients) {
        const auto block = read_attention_block<const float>(weights);
        const auto sums = read_attention_block<float>(gradients);
        nb::gil_scoped_release unlocked;
        smf::attention_block_backward({token_shape(shape), hidden, heads, window, shift}, in(x), in(dy), block,
                                             out(dx), sums);
      },
      nb::arg("shape"), nb::arg("hidden"), nb::arg("heads"), nb::arg("window"), nb::arg("shift"), nb::arg("x"),
      nb::arg("dy"), nb::arg("weights"), nb::arg("dx"), nb::arg("gradients"));
}
