// The Python module `shadowmaskformer.engine._native`: arrays in, arrays out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "core/isa.h"
#include "core/network.h"
#include "core/step_network.h"
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

// A table of weights that keeps their arrays alive, until a network has copied them.
struct Weights {
  std::vector<InputArray> arrays;
  smf::Parameters parameters;

  explicit Weights(const nb::dict& weights) {
    for (auto [name, value] : weights) {
      InputArray array;
      if (!nb::try_cast(value, array))
        throw std::invalid_argument("weight '" + nb::cast<std::string>(name) +
                                    "' must be a contiguous float32 array in CPU memory");
      smf::Parameter parameter{array.data(), {}};
      for (std::size_t i = 0; i < array.ndim(); ++i) parameter.shape.push_back(array.shape(i));
      parameters.emplace(nb::cast<std::string>(name), std::move(parameter));
      arrays.push_back(std::move(array));
    }
  }
};

void make_network(smf::Network* place, const nb::dict& config, const nb::dict& weights) {
  new (place) smf::Network(read_config(config), Weights(weights).parameters);
}

void make_step_network(smf::StepNetwork* place, const nb::sequence& steps, int channels, const nb::dict& weights) {
  std::vector<smf::Step> list;
  for (const nb::handle step : steps) {
    smf::Step each;
    each.op = nb::cast<std::string>(step.attr("op"));
    for (const nb::handle input : step.attr("inputs")) each.inputs.push_back(nb::cast<int>(input));
    each.channels = nb::cast<int>(step.attr("channels"));
    each.name = nb::cast<std::string>(step.attr("name"));
    each.side = nb::cast<int>(step.attr("side"));
    each.stride = nb::cast<int>(step.attr("stride"));
    each.depthwise = nb::cast<bool>(step.attr("depthwise"));
    each.clipped = nb::cast<bool>(step.attr("clipped"));
    list.push_back(std::move(each));
  }
  const Weights table(weights);
  new (place) smf::StepNetwork(list, channels, smf::checked(table.parameters));
}

smf::StepNetwork::Size head_size(const smf::StepNetwork& network, int height, int width) {
  return network.head_size(height, width);
}
smf::StepNetwork::Size head_size(const smf::Network&, int height, int width) { return {height, width}; }

template <class AnyNetwork>
OutputArray forward(const AnyNetwork& network, const InputArray& projected, int threads) {
  const std::size_t dims = projected.ndim();
  const std::string channels = std::to_string(network.channels());
  if ((dims != 3 && dims != 4) || projected.shape(dims - 1) != std::size_t(network.channels()))
    throw std::invalid_argument("projected must be (H, W, " + channels + ") or (B, H, W, " + channels + "), got " +
                                std::to_string(dims) + " dimensions" +
                                (dims ? ", the last of size " + std::to_string(projected.shape(dims - 1)) : ""));
  int sides[3] = {1, 1, 1};  // batch, height, width
  for (std::size_t i = 0; i + 1 < dims; ++i) {
    if (projected.shape(i) < 1 || projected.shape(i) > 1 << 20)
      throw std::invalid_argument("projected has a side of " + std::to_string(projected.shape(i)) +
                                  "; sizes go from 1 to 1048576");
    sides[i + 4 - dims] = int(projected.shape(i));
  }
  const smf::StepNetwork::Size size = head_size(network, sides[1], sides[2]);
  const std::size_t shape[4] = {std::size_t(sides[0]), std::size_t(size.height), std::size_t(size.width),
                                std::size_t(network.head_channels())};
  float* head = new float[shape[0] * shape[1] * shape[2] * shape[3]];
  nb::capsule owner(head, [](void* data) noexcept { delete[] static_cast<float*>(data); });
  {
    nb::gil_scoped_release release;
    network.forward(sides[0], sides[1], sides[2], projected.data(), head, threads);
  }
  return OutputArray(head, dims, shape + 4 - dims, owner);
}

template <class AnyNetwork>
std::size_t scratch_bytes(const AnyNetwork& network, int height, int width, int threads) {
  return network.scratch_bytes(height, width, threads > 0 ? threads : smf::num_threads());
}

}  // namespace

NB_MODULE(_native, module) {
  // A remover that somebody keeps until the interpreter ends, as `remove_shadow` does, is no leak worth a page of text.
  nb::set_leak_warnings(false);
  module.def("isa", [] { return smf::isa_name(smf::active_isa()); }, "Instruction set in use.");
  module.def("set_num_threads", &smf::set_num_threads, "count"_a, "Set the threads that later calls may use.");
  nb::class_<smf::Network>(module, "Network", "The network with its weights packed.")
      .def("__init__", &make_network, "config"_a, "weights"_a)
      .def("forward", &forward<smf::Network>, "projected"_a, "threads"_a = 0,
           "The head's channels, (.., H, W, heads), for an embedded picture.")
      .def("scratch_bytes", &scratch_bytes<smf::Network>, "height"_a, "width"_a, "threads"_a = 0,
           "Scratch memory that a call takes.");
  nb::class_<smf::StepNetwork>(module, "StepNetwork", "A network that a list of steps describes.")
      .def("__init__", &make_step_network, "steps"_a, "channels"_a, "weights"_a)
      .def_prop_ro("multiple", &smf::StepNetwork::multiple, "What both sides of a picture must be multiples of.")
      .def("forward", &forward<smf::StepNetwork>, "projected"_a, "threads"_a = 0, "The last step's map.")
      .def("scratch_bytes", &scratch_bytes<smf::StepNetwork>, "height"_a, "width"_a, "threads"_a = 0,
           "Scratch memory that a call takes.");
  bind_training(module);
}
