// Gradient checkpointing: a layer that keeps its inputs and nothing else, and is computed a second
// time when its gradients are asked for.
//
// tch has no way to define a function with a backward of its own. The layer itself is computed by a
// callback, so that nothing of any model stands here.

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Computes a layer of borrowed inputs. Returns a new `at::Tensor *`, or null with the reason in
// `message`.
using Compute = at::Tensor *(*)(void *owner, at::Tensor *const *inputs, std::size_t count,
                                char *message, std::size_t message_size);

// The callback and what it needs; the owner is released when the last node that may call it is gone.
struct Layer : torch::CustomClassHolder {
  std::shared_ptr<void> owner;
  Compute compute;

  Layer(std::shared_ptr<void> owner, Compute compute)
      : owner(std::move(owner)), compute(compute) {}

  at::Tensor operator()(variable_list &inputs) const {
    std::vector<at::Tensor *> pointers;
    pointers.reserve(inputs.size());
    for (auto &input : inputs) {
      pointers.push_back(&input);
    }
    char message[512] = {0};
    std::unique_ptr<at::Tensor> output(
        compute(owner.get(), pointers.data(), pointers.size(), message, sizeof message));
    TORCH_CHECK(output != nullptr, message);
    return *output;
  }
};

// The random numbers of a device, put back when this goes.
struct RandomState {
  at::Generator generator;
  at::Tensor before;

  explicit RandomState(at::Device device)
      : generator(at::globalContext().defaultGenerator(device)) {
    before = get();
  }
  ~RandomState() { set(before); }
  at::Tensor get() {
    std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  void set(const at::Tensor &state) {
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
};

// Autocast as it was in the forward pass, put back when this goes. Its cache of cast weights is left
// alone: these weights are leaves of their own, which nobody will ask for again.
struct Autocast {
  at::DeviceType device;
  bool enabled, cache;
  at::ScalarType kind;

  Autocast(at::DeviceType device, bool enable, at::ScalarType as)
      : device(device), enabled(at::autocast::is_autocast_enabled(device)),
        cache(at::autocast::is_autocast_cache_enabled()),
        kind(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, enable);
    at::autocast::set_autocast_dtype(device, as);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, kind);
    at::autocast::set_autocast_cache_enabled(cache);
  }
};

// The same values, unknown to autograd but for what is asked.
variable_list leaves(const variable_list &inputs, const std::vector<bool> *wanted) {
  variable_list found;
  found.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); i++) {
    found.push_back(inputs[i].detach());
    if (wanted != nullptr && (*wanted)[i]) {
      found.back().set_requires_grad(true);
    }
  }
  return found;
}

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext *context, at::TensorList tensors,
                            const c10::intrusive_ptr<Layer> &layer, bool random) {
    variable_list inputs = tensors.vec();
    auto device = inputs[0].device();
    context->save_for_backward(inputs);
    context->saved_data["layer"] = c10::IValue::make_capsule(layer);
    context->saved_data["autocast"] = at::autocast::is_autocast_enabled(device.type());
    context->saved_data["kind"] = at::autocast::get_autocast_dtype(device.type());
    if (random) {
      auto generator = at::globalContext().defaultGenerator(device);
      std::lock_guard<std::mutex> lock(generator.mutex());
      context->saved_data["random"] = generator.get_state();
    }
    // Detached, so that autocast does not keep casts of weights that have no gradient.
    auto values = leaves(inputs, nullptr);
    return (*layer)(values);
  }

  static variable_list backward(AutogradContext *context, variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "a checkpointed layer has no second derivative");
    auto inputs = context->get_saved_variables();
    auto device = inputs[0].device();
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < inputs.size(); i++) {
      wanted.push_back(context->needs_input_grad(i));
    }
    auto values = leaves(inputs, &wanted);
    auto layer = c10::static_intrusive_pointer_cast<Layer>(context->saved_data["layer"].toCapsule());

    at::Tensor output;
    {
      at::AutoGradMode with_gradients(true);
      Autocast autocast(device.type(), context->saved_data["autocast"].toBool(),
                        context->saved_data["kind"].toScalarType());
      std::optional<RandomState> random;
      auto drawn = context->saved_data.find("random");
      if (drawn != context->saved_data.end()) {
        random.emplace(device).set(drawn->second.toTensor());
      }
      output = (*layer)(values);
    }

    variable_list asked;
    for (std::size_t i = 0; i < values.size(); i++) {
      if (wanted[i]) {
        asked.push_back(values[i]);
      }
    }
    auto found = torch::autograd::grad({output}, asked, {gradients[0]}, /*retain_graph=*/false,
                                       /*create_graph=*/false, /*allow_unused=*/true);
    // A gradient for each argument of `forward`; the layer and the flag have none.
    variable_list all(values.size() + 2);
    for (std::size_t i = 0, next = 0; i < values.size(); i++) {
      if (wanted[i]) {
        all[i] = found[next++];
      }
    }
    return all;
  }
};

} // namespace

extern "C" {

// What `compute` makes of these inputs, the first of which says on which device. Returns a new
// `at::Tensor *`, or null with the reason in `message`. Where `random`, the second time draws the
// random numbers of the first.
//
// The owner is taken over on every path: `release(owner)` runs exactly once, when `compute` will not
// be called again.
at::Tensor *millstream_checkpoint(at::Tensor *const *inputs, std::size_t count, bool random,
                                  void *owner, Compute compute, void (*release)(void *),
                                  char *message, std::size_t message_size) noexcept {
  try {
    std::shared_ptr<void> held(owner, release);
    auto layer = c10::make_intrusive<Layer>(std::move(held), compute);
    variable_list tensors;
    tensors.reserve(count);
    for (std::size_t i = 0; i < count; i++) {
      tensors.push_back(*inputs[i]);
    }
    return new at::Tensor(Checkpoint::apply(at::TensorList(tensors), layer, random));
  } catch (const std::exception &error) {
    std::snprintf(message, message_size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, message_size, "an exception of an unknown kind");
  }
  return nullptr;
}

} // extern "C"
