// Operators over all parameters at once, which tch does not wrap: gradients taken from their
// parameters, what clips them, and libtorch's fused optimizers.
//
// A list is an array of `at::Tensor *`, which is what tch calls a `C_tensor *`. A parameter whose
// gradient is undefined had no part in the loss and is left out, as PyTorch does. Every function
// returns false, or null, with the reason in `message`.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace {

using List = at::Tensor *const *;

// Runs `body`; an exception becomes its text.
template <typename Body>
bool guarded(char *message, std::size_t message_size, const Body &body) noexcept {
  try {
    c10::NoGradGuard no_grad;
    body();
    return true;
  } catch (const std::exception &error) {
    std::snprintf(message, message_size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, message_size, "an exception of an unknown kind");
  }
  return false;
}

// The tensors of a list whose neighbours in `gradients` are defined.
std::vector<at::Tensor> with_gradients(List list, List gradients, std::size_t count) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (std::size_t i = 0; i < count; i++) {
    if (gradients[i]->defined()) {
      tensors.push_back(*list[i]);
    }
  }
  return tensors;
}

std::optional<at::Tensor> optional(const at::Tensor *tensor) {
  return tensor == nullptr ? std::nullopt : std::make_optional(*tensor);
}

// The squares of so many values, added up in an order that depends on nothing else.
double sum_of_squares(const float *values, std::int64_t count) {
  // In parts small enough for 32 bits, and in lanes, so that a compiler can use wide registers.
  constexpr std::int64_t part = 4096, lanes = 16;
  double total = 0;
  for (std::int64_t start = 0; start < count; start += part) {
    const auto end = std::min(start + part, count);
    float sums[lanes] = {};
    auto at = start;
    for (; at + lanes <= end; at += lanes) {
      for (std::int64_t lane = 0; lane < lanes; lane++) {
        sums[lane] += values[at + lane] * values[at + lane];
      }
    }
    for (; at < end; at++) {
      sums[0] += values[at] * values[at];
    }
    for (auto sum : sums) {
      total += sum;
    }
  }
  return total;
}

bool is_plain_memory(const at::Tensor &tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.is_non_overlapping_and_dense();
}

// What gradients on the CPU are to be divided by: a loop of our own, as an operator for each of them
// takes longer than its arithmetic.
at::Tensor clipping_scale_on_cpu(const std::vector<at::Tensor> &gradients, double limit,
                                 const at::Tensor *scale) {
  double total = 0;
  for (const auto &gradient : gradients) {
    total += sum_of_squares(gradient.const_data_ptr<float>(), gradient.numel());
  }
  const double least = scale == nullptr ? 1.0 : *scale->const_data_ptr<float>();
  const double over = std::sqrt(total) / limit;
  // A norm that is no number stays none, as it does on a device.
  return at::scalar_tensor(over < least ? least : over, at::kFloat);
}

at::Tensor clipping_scale_by_operators(const std::vector<at::Tensor> &gradients, double limit,
                                       const at::Tensor *scale) {
  auto over = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients))).div_(limit);
  return scale == nullptr ? over.clamp_min_(1) : at::maximum(over, *scale);
}

} // namespace

extern "C" {

// As in `fused.rs`.
struct MillstreamScaled {
  const at::Tensor *scale;
  const at::Tensor *found_inf;
};

struct MillstreamAdam {
  double rate;
  double beta1;
  double beta2;
  double weight_decay;
  double epsilon;
  bool decoupled;
};

struct MillstreamSgd {
  double rate;
  double momentum;
  double weight_decay;
  bool nesterov;
};

// Moves the gradients of `parameters`, which then have none, into new tensors.
bool millstream_take_gradients(List parameters, std::size_t count, at::Tensor **gradients,
                               char *message, std::size_t message_size) noexcept {
  return guarded(message, message_size, [&] {
    std::vector<std::unique_ptr<at::Tensor>> taken(count);
    for (auto &gradient : taken) {
      gradient = std::make_unique<at::Tensor>();
    }
    for (std::size_t i = 0; i < count; i++) {
      std::swap(*taken[i], parameters[i]->mutable_grad());
    }
    for (std::size_t i = 0; i < count; i++) {
      gradients[i] = taken[i].release();
    }
  });
}

// The larger of `scale`, which is 1 where it is null, and the 2-norm of all gradients together over
// `limit`, as a new tensor.
at::Tensor *millstream_clipping_scale(List gradients, std::size_t count, double limit,
                                      const at::Tensor *scale, char *message,
                                      std::size_t message_size) noexcept {
  at::Tensor *by = nullptr;
  guarded(message, message_size, [&] {
    auto list = with_gradients(gradients, gradients, count);
    const bool plain = std::all_of(list.begin(), list.end(), is_plain_memory) &&
                       (scale == nullptr || is_plain_memory(*scale));
    by = new at::Tensor(plain ? clipping_scale_on_cpu(list, limit, scale)
                              : clipping_scale_by_operators(list, limit, scale));
  });
  return by;
}

// A step of Adam, or of AdamW where weight decay is decoupled. `steps` holds how many steps were
// taken, this one included.
bool millstream_adam(List parameters, List gradients, List averages, List squares,
                     std::size_t count, const at::Tensor *steps, const MillstreamAdam *adam,
                     const MillstreamScaled *scaled, char *message,
                     std::size_t message_size) noexcept {
  return guarded(message, message_size, [&] {
    auto weights = with_gradients(parameters, gradients, count);
    // One count for all: libtorch only reads it.
    std::vector<at::Tensor> counts(weights.size(), *steps);
    auto step = [&](auto fused) {
      fused(weights, with_gradients(gradients, gradients, count),
            with_gradients(averages, gradients, count), with_gradients(squares, gradients, count),
            {}, counts, adam->rate, adam->beta1, adam->beta2, adam->weight_decay, adam->epsilon,
            false, false, optional(scaled->scale), optional(scaled->found_inf));
    };
    if (adam->decoupled) {
      step(at::_ops::_fused_adamw_::call);
    } else {
      step(at::_ops::_fused_adam_::call);
    }
  });
}

// A step down the gradients. Without momentum, `buffers` is null.
bool millstream_sgd(List parameters, List gradients, List buffers, std::size_t count,
                    const MillstreamSgd *sgd, const MillstreamScaled *scaled, char *message,
                    std::size_t message_size) noexcept {
  return guarded(message, message_size, [&] {
    std::vector<at::Tensor> kept;
    if (buffers != nullptr) {
      kept = with_gradients(buffers, gradients, count);
    }
    // Never the first step, at which libtorch overwrites the buffers: they begin as zeros, which
    // gives the same, and a first step that is skipped leaves them so.
    at::_fused_sgd_(with_gradients(parameters, gradients, count),
                    with_gradients(gradients, gradients, count), kept, sgd->weight_decay,
                    sgd->momentum, sgd->rate, 0.0, sgd->nesterov, false, false,
                    optional(scaled->scale), optional(scaled->found_inf));
  });
}

} // extern "C"
