// The Python module `shadowmaskformer.engine._native`: arrays in, arrays out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "core/isa.h"
#include "core/network.h"
#include "core/threads.h"

namespace nb = nanobind;
using namespace nb::literals;

// Defined in training.cpp: the forward and backward operators that training uses.
void bind_training(nb::module_& module);

namespace {

using InputArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using OutputArray = nb::ndarray<nb::numpy, float, nb::c_contig>;

template <class T>
void five_values(const nb::dict& config, const char* key, T (&values)[smf::kStages]) {
  const nb::sequence list = nb::cast<nb::sequence>(config[key]);
  if (nb::len(list) != smf::kStages)
    throw std::invalid_argument(std::string(key) + " must have 5 values, got " + std::to_string(nb::len(list)));
  for (int i = 0; i < smf::kStages; ++i) values[i] = nb::cast<T>(list[i]);
}

smf::NetworkConfig read_config(const nb::dict& config) {
  smf::NetworkConfig c;
  five_values(config, "depths", c.depths);
  five_values(config, "widths", c.widths);
  five_values(config, "heads", c.heads);
  five_values(config, "mlp_ratios", c.mlp_ratios);
  five_values(config, "attention_shares", c.attention_shares);
  c.window = nb::cast<int>(config["window"]);
  c.attention_conv = nb::cast<bool>(config["attention_conv"]);
  return c;
}

void make_network(smf::Network* place, const nb::dict& config, const nb::dict& weights) {
  std::vector<InputArray> alive;  // until the network has copied them
  smf::Parameters parameters;
  for (auto [name, value] : weights) {
    InputArray array;
    if (!nb::try_cast(value, array))
      throw std::invalid_argument("weight '" + nb::cast<std::string>(name) +
                                  "' must be a contiguous float32 array in CPU memory");
    smf::Parameter parameter{array.data(), {}};
    for (std::size_t i = 0; i < array.ndim(); ++i) parameter.shape.push_back(array.shape(i));
    parameters.emplace(nb::cast<std::string>(name), std::move(parameter));
    alive.push_back(std::move(array));
  }
  new (place) smf::Network(read_config(config), parameters);
}

OutputArray forward(const smf::Network& network, const InputArray& projected, int threads) {
  const std::size_t dims = projected.ndim();
  const std::string channels = std::to_string(network.channels());
  if ((dims != 3 && dims != 4) || projected.shape(dims - 1) != std::size_t(network.channels()))
    throw std::invalid_argument("projected must be (H, W, " + channels + ") or (B, H, W, " + channels + "), got " +
                                std::to_string(dims) + " dimensions" +
                                (dims ? ", the last of size " + std::to_string(projected.shape(dims - 1)) : ""));
  std::size_t count = network.head_channels(), shape[4] = {1, 1, 1, count};
  for (std::size_t i = 0; i + 1 < dims; ++i) {
    if (projected.shape(i) < 1 || projected.shape(i) > 1 << 20)
      throw std::invalid_argument("projected has a side of " + std::to_string(projected.shape(i)) +
                                  "; sizes go from 1 to 1048576");
    shape[i + 4 - dims] = projected.shape(i);
    count *= projected.shape(i);
  }
  float* head = new float[count];
  nb::capsule owner(head, [](void* data) noexcept { delete[] static_cast<float*>(data); });
  {
    nb::gil_scoped_release release;
    network.forward(int(shape[0]), int(shape[1]), int(shape[2]), projected.data(), head, threads);
  }
  return OutputArray(head, dims, shape + 4 - dims, owner);
}

}  // namespace

NB_MODULE(_native, module) {
  module.def("isa", [] { return smf::isa_name(smf::active_isa()); }, "Instruction set in use.");
  module.def("num_threads", &smf::num_threads, "Threads that a call may use.");
  module.def("set_num_threads", &smf::set_num_threads, "count"_a, "Set the threads that later calls may use.");
  nb::class_<smf::Network>(module, "Network", "The network with its weights packed.")
      .def("__init__", &make_network, "config"_a, "weights"_a)
      .def("forward", &forward, "projected"_a, "threads"_a = 0, "The head's channels, (.., H, W, heads), for an embedded picture.")
      .def(
          "scratch_bytes",
          [](const smf::Network& network, int height, int width, int threads) {
            return network.scratch_bytes(height, width, threads > 0 ? threads : smf::num_threads());
          },
          "height"_a, "width"_a, "threads"_a = 0, "Scratch memory that a call takes.");
  bind_training(module);
}
