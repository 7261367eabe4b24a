// Runs a list of steps.
//
// Fusion     Three patterns run as one operation where nobody else reads the map between: a sum with the convolution
//            that makes one of its maps; a 1x1 convolution with the depthwise one before it; and a depthwise one with the
//            1x1 convolution before it if the map between them is large. An operation runs at the place of its last step.
// Memory     A map lives from the operation that makes it to the last one that reads it; the next maps take its place.
// Threads    Every kernel splits its own map; kernels follow one another.
#include "core/step_network.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/arena.h"
#include "core/pack.h"
#include "core/steps.h"
#include "core/threads.h"

namespace smf {
namespace {

constexpr int kNone = -2;  // no step; kSource is -1

// A map of more bytes than this does not stay in the second-level cache: making it row by row, some rows twice, is then
// faster than writing and reading it. EfficientNet-Lite0 at 256x256 gains 5 %, for limits of 0 to 2 MB alike.
constexpr std::size_t kLargeMap = std::size_t(1) << 20;

int padded(int channels) { return (channels + 7) / 8 * 8; }

// Where a map is between the input's size and a single token.
struct Level {
  int halvings = 0;     // of the input's sides; negative if it was enlarged beyond them
  bool single = false;  // one token, made by `mean`
  bool operator==(const Level& other) const { return single == other.single && (single || halvings == other.halvings); }
};

// A step with its weights packed.
struct Node {
  Step step;
  Level level;
  int stored;  // channels with their padding
  int readers = 0;
  bool pointwise = false;  // a dense 1x1 convolution
  DenseConvolution dense{};
  Depthwise taps{};
};

// Steps that run as one. Numbers of steps, kNone where there is none.
struct Operation {
  int last;            // whose map it makes
  int convolution;     // dense or depthwise
  int depthwise;       // before a 1x1 `convolution`
  int expand;          // 1x1 before the depthwise convolution
  int input, addend;   // maps that it reads; kSource is the input
};

[[noreturn]] void refuse(std::size_t index, const Step& step, const std::string& problem) {
  const std::string name = step.name.empty() ? "" : " '" + step.name + "'";
  throw std::invalid_argument("step " + std::to_string(index) + " (" + step.op + name + ") " + problem);
}

}  // namespace

struct StepNetwork::Impl {
  int channels;
  int multiple = 1;
  std::vector<Node> nodes;
  const BlockKernels* blocks;
  const LinkKernels* links;
  const StepKernels* kernels;
  std::vector<std::unique_ptr<Arena>> storage;
  mutable ArenaPool arenas;

  // --- checking and packing ----------------------------------------------------------------------------------------

  Level level_of(int map) const { return map == kSource ? Level{} : nodes[map].level; }
  int channels_of(int map) const { return map == kSource ? channels : nodes[map].step.channels; }
  // Channels as they lie in memory.
  int stored_of(int map) const { return map == kSource ? channels : nodes[map].stored; }

  // Throws unless the step fits those before it; returns where its map is.
  Level checked_level(std::size_t index, const Step& step) const {
    const auto number = [](int value) { return std::to_string(value); };
    const bool convolves = step.op == "conv", adds = step.op == "add";
    if (!convolves && !adds && step.op != "enlarge" && step.op != "mean")
      refuse(index, step, "is unknown; there are conv, add, enlarge and mean");
    const std::size_t wanted = adds ? 2 : 1;
    if (step.inputs.size() != wanted)
      refuse(index, step, "has " + std::to_string(step.inputs.size()) + " inputs, expected " + std::to_string(wanted));
    for (int input : step.inputs)
      if (input < kSource || input >= int(index))
        refuse(index, step, "takes step " + number(input) + ", which does not come before it");
    if (step.channels < 1) refuse(index, step, "has " + number(step.channels) + " channels, expected at least 1");
    const bool dense = convolves && !step.depthwise;
    for (int input : step.inputs) {
      if (!dense && channels_of(input) != step.channels)
        refuse(index, step, "makes " + number(step.channels) + " channels of " + number(channels_of(input)) +
                                "; only dense convolutions change their number");
      if (!dense && stored_of(input) % 8)
        refuse(index, step, "takes the input, whose " + number(channels) +
                                " channels are no multiple of 8; let a dense convolution take it");
    }
    const Level from = level_of(step.inputs[0]);
    if (!convolves && step.clipped) refuse(index, step, "is clipped; only convolutions are");
    if (adds) {
      const Level other = level_of(step.inputs[1]);
      if (!(other == from) && !other.single) refuse(index, step, "adds maps of two sizes; only the second may be 1x1");
      return from;
    }
    if (step.op == "mean") return {0, true};
    if (step.op == "enlarge") {
      if (from.single) refuse(index, step, "enlarges a 1x1 map; add it instead");
      return {from.halvings - 1, false};
    }
    if (step.side < 1 || step.side % 2 == 0)
      refuse(index, step, "has side " + number(step.side) + ", expected an odd one");
    if (step.stride != 1 && step.stride != 2)
      refuse(index, step, "has stride " + number(step.stride) + ", expected 1 or 2");
    if (step.side < step.stride) refuse(index, step, "has side 1 and stride 2, which skips pixels; use a larger side");
    if (step.depthwise && (step.side < 3 || step.side > 7))
      refuse(index, step, "is depthwise with side " + number(step.side) +
                              "; the native engine has 3, 5 and 7, use the torch or onnx runtime");
    if (from.single && step.stride == 2) refuse(index, step, "halves a 1x1 map");
    return from.single ? from : Level{from.halvings + step.stride - 1, false};
  }

  // Packs into memory of its own, which lives as long as the network.
  Packer packer(std::size_t bytes) {
    storage.push_back(std::make_unique<Arena>());
    storage.back()->reserve(bytes);
    return Packer(*storage.back(), blocks->pack);
  }

  void append(const Step& step, const ParameterSource& parameter) {
    Node node;
    node.step = step;
    node.level = checked_level(nodes.size(), step);
    node.stored = padded(step.channels);
    for (int input : step.inputs)
      if (input != kSource) ++nodes[input].readers;
    if (step.op == "conv") {
      const int inputs = channels_of(step.inputs[0]), stored = stored_of(step.inputs[0]), side = step.side;
      const std::size_t outputs = step.channels, edge = side, depth = step.depthwise ? 1 : inputs;
      const float* weight = parameter(step.name + ".weight", {outputs, depth, edge, edge});
      const float* bias = parameter(step.name + ".bias", {outputs});
      if (step.depthwise) {
        node.taps = packer(Packer::depthwise_bytes(inputs, side)).depthwise(weight, bias, inputs, side);
      } else {
        node.pointwise = side == 1;
        const std::size_t bytes = Packer::matrix_bytes(step.channels, stored * side * side);
        node.dense = {packer(bytes).convolution(weight, bias, step.channels, inputs, side, stored), side, step.stride,
                      step.clipped};
      }
    }
    if (node.level.halvings > 16 || node.level.halvings < -4)
      refuse(nodes.size(), step, "leaves the sizes that are possible: 1/65536 to 16 times that of the input");
    if (!node.level.single) multiple = std::max(multiple, 1 << std::max(0, node.level.halvings));
    nodes.push_back(std::move(node));
  }

  // --- planning ----------------------------------------------------------------------------------------------------

  // Of a picture of this size.
  MapShape shape_of(int map, int height, int width) const {
    const Level level = level_of(map);
    const auto side = [&](int whole) {
      return level.single ? 1 : level.halvings < 0 ? whole << -level.halvings : whole >> level.halvings;
    };
    return {side(height), side(width), stored_of(map)};
  }

  static std::size_t floats(const MapShape& shape) { return std::size_t(shape.height) * shape.width * shape.channels; }

  // Whether `map` can be made inside the operation that reads it: nobody else does.
  bool inner(int map) const { return map != kSource && nodes[map].readers == 1; }

  // Which steps run together, in order.
  std::vector<Operation> operations(int height, int width) const {
    std::vector<Operation> made;
    std::vector<bool> absorbed(nodes.size(), false);
    for (int index = int(nodes.size()) - 1; index >= 0; --index) {
      if (absorbed[index]) continue;
      const Node& node = nodes[index];
      Operation o{index, kNone, kNone, kNone, node.step.inputs[0], kNone};
      if (node.step.op == "conv") o.convolution = index;
      if (node.step.op == "add") {
        o.addend = node.step.inputs[1];
        for (int place : {1, 0}) {
          const int map = node.step.inputs[place];
          if (inner(map) && nodes[map].dense.side > 0 && !nodes[map].step.clipped && nodes[map].level == node.level) {
            o.convolution = map;
            o.addend = node.step.inputs[1 - place];
            break;
          }
        }
      }
      if (o.convolution != kNone) {
        absorbed[o.convolution] = true;
        o.input = nodes[o.convolution].step.inputs[0];
        if (nodes[o.convolution].pointwise && inner(o.input) && nodes[o.input].step.depthwise) {
          o.depthwise = o.input;
          absorbed[o.input] = true;
          o.input = nodes[o.input].step.inputs[0];
        } else if (nodes[o.convolution].step.depthwise) {
          o.depthwise = o.convolution;
          o.convolution = kNone;
        }
      }
      if (o.depthwise != kNone && inner(o.input) && nodes[o.input].pointwise &&
          floats(shape_of(o.input, height, width)) * sizeof(float) > kLargeMap) {
        o.expand = o.input;
        absorbed[o.input] = true;
        o.input = nodes[o.input].step.inputs[0];
      }
      made.push_back(o);
    }
    std::reverse(made.begin(), made.end());
    return made;
  }

  SeparableConvolution separable(const Operation& o) const {
    const Node& node = nodes[o.depthwise];
    return {o.expand == kNone ? nullptr : &nodes[o.expand].dense,
            node.taps,
            node.stored,
            node.step.side,
            node.step.stride,
            node.step.clipped,
            o.convolution == kNone ? nullptr : &nodes[o.convolution].dense};
  }

  std::size_t kernel_scratch(const Operation& o, const MapShape& in, int threads) const {
    if (o.depthwise != kNone) return kernels->separable_scratch(separable(o), in, threads);
    if (o.convolution != kNone) return kernels->dense_scratch(nodes[o.convolution].dense, in, threads);
    if (nodes[o.last].step.op == "enlarge") return kernels->enlarge_scratch(in, threads);
    return nodes[o.last].step.op == "mean" ? links->channel_sums_scratch(in.channels) : 0;
  }

  // Everything that depends on the size of the picture.
  struct Plan {
    std::vector<Operation> operations;
    std::vector<std::size_t> starts;  // of each step's map among the floats of all maps
    std::size_t map_floats = 0;
    std::size_t scratch = 0;  // bytes of the kernel that needs most
    std::size_t bytes() const { return Arena::bytes(map_floats) + scratch; }
  };

  Plan plan(int height, int width, int threads) const {
    Plan p{operations(height, width), std::vector<std::size_t>(nodes.size(), 0)};
    std::vector<int> last_read(nodes.size(), -1);
    for (const Operation& o : p.operations)
      for (int map : {o.input, o.addend})
        if (map >= 0) last_read[map] = o.last;
    struct Block {
      std::size_t start, end;
      int map;
    };
    std::vector<Block> alive;  // by where they start
    for (const Operation& o : p.operations) {
      // The first gap that is large enough.
      const std::size_t size = Arena::slice(floats(shape_of(o.last, height, width)));
      std::size_t start = 0;
      auto place = alive.begin();
      for (; place != alive.end() && start + size > place->start; ++place) start = place->end;
      alive.insert(place, {start, start + size, o.last});
      p.starts[o.last] = start;
      p.map_floats = std::max(p.map_floats, start + size);
      p.scratch = std::max(p.scratch, kernel_scratch(o, shape_of(o.input, height, width), threads));
      const auto done = [&](const Block& block) { return last_read[block.map] <= o.last; };
      alive.erase(std::remove_if(alive.begin(), alive.end(), done), alive.end());
    }
    return p;
  }

  // --- running -----------------------------------------------------------------------------------------------------

  void mean(const MapShape& in, const float* x, float* out, Arena& arena, int threads) const {
    const std::size_t tokens = std::size_t(in.height) * in.width;
    std::vector<double> sums(in.channels);
    links->channel_sums(tokens, in.channels, x, sums.data(), arena, threads);
    for (int c = 0; c < in.channels; ++c) out[c] = float(sums[c] / double(tokens));
  }

  void run(const Plan& p, int height, int width, const float* x, float* head, Arena& arena, int threads) const {
    float* maps = arena.floats(p.map_floats);
    const int final = int(nodes.size()) - 1;
    const bool direct = nodes[final].stored == nodes[final].step.channels;
    const auto at = [&](int map) -> const float* { return map == kSource ? x : maps + p.starts[map]; };
    for (const Operation& o : p.operations) {
      const MapShape in = shape_of(o.input, height, width);
      float* out = o.last == final && direct ? head : maps + p.starts[o.last];
      Addend add;
      if (o.addend != kNone)
        add = {at(o.addend), level_of(o.addend) == nodes[o.last].level ? stored_of(o.addend) : 0};
      if (o.depthwise != kNone)
        kernels->separable(separable(o), in, at(o.input), add, out, arena, threads);
      else if (o.convolution != kNone)
        kernels->dense(nodes[o.convolution].dense, in, at(o.input), add, out, arena, threads);
      else if (nodes[o.last].step.op == "add")
        kernels->add(in, at(o.input), add, out, threads);
      else if (nodes[o.last].step.op == "enlarge")
        kernels->enlarge(in, at(o.input), out, arena, threads);
      else
        mean(in, at(o.input), out, arena, threads);
    }
    if (direct) return;
    const MapShape shape = shape_of(final, height, width);
    const int wanted = nodes[final].step.channels;
    for (std::size_t token = 0; token < std::size_t(shape.height) * shape.width; ++token)
      std::copy_n(at(final) + token * shape.channels, wanted, head + token * wanted);
  }
};

StepNetwork::StepNetwork(const std::vector<Step>& steps, int channels, const ParameterSource& parameter)
    : impl_(new Impl) {
  if (steps.empty()) throw std::invalid_argument("a network needs at least one step, got none");
  if (channels < 1)
    throw std::invalid_argument("the input has " + std::to_string(channels) + " channels, expected at least 1");
  impl_->channels = channels;
  impl_->blocks = &SMF_SELECT(block_kernels);
  impl_->links = &SMF_SELECT(link_kernels);
  impl_->kernels = &SMF_SELECT(step_kernels);
  for (const Step& step : steps) impl_->append(step, parameter);
  ++impl_->nodes.back().readers;  // the caller
}

StepNetwork::~StepNetwork() = default;

int StepNetwork::channels() const { return impl_->channels; }
int StepNetwork::head_channels() const { return impl_->nodes.back().step.channels; }
int StepNetwork::multiple() const { return impl_->multiple; }

StepNetwork::Size StepNetwork::head_size(int height, int width) const {
  if (height < 1 || width < 1 || height % multiple() || width % multiple())
    throw std::invalid_argument("the picture is " + std::to_string(height) + "x" + std::to_string(width) +
                                "; this network takes sides that are multiples of " + std::to_string(multiple()));
  const MapShape shape = impl_->shape_of(int(impl_->nodes.size()) - 1, height, width);
  return {shape.height, shape.width};
}

std::size_t StepNetwork::scratch_bytes(int height, int width, int threads) const {
  head_size(height, width);
  return impl_->plan(height, width, threads).bytes();
}

void StepNetwork::forward(int batch, int height, int width, const float* x, float* head, int threads) const {
  if (threads < 1) threads = num_threads();
  const Size size = head_size(height, width);
  const Impl::Plan plan = impl_->plan(height, width, threads);
  ArenaLease lease(impl_->arenas, plan.bytes());
  const std::size_t taken = std::size_t(height) * width * channels();
  const std::size_t made = std::size_t(size.height) * size.width * head_channels();
  for (int i = 0; i < batch; ++i) {
    lease.arena().rewind(0);
    impl_->run(plan, height, width, x + i * taken, head + i * made, lease.arena(), threads);
  }
}

}  // namespace smf
