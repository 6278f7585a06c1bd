// Operators over all parameters at once, which tch does not wrap: gradients taken from their
// parameters, what clips them and whether they are numbers, the scale of a 16-bit loss, averages of
// weights, and libtorch's fused optimizers.
//
// A list is an array of `at::Tensor *`, which is what tch calls a `C_tensor *`. A parameter whose
// gradient is undefined had no part in the loss and is left out, as PyTorch does. Every function
// returns false, or null, with the reason in `message`.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/isfinite.h>
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
#include <limits>
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

// The same where 32 bits do not hold it: of values that are numbers it is one.
double large_sum_of_squares(const float *values, std::int64_t count) {
  double total = 0;
  for (std::int64_t at = 0; at < count; at++) {
    total += static_cast<double>(values[at]) * values[at];
  }
  return total;
}

// The norm of all gradients over the limit, and whether a value is none, of a gradient or a loss.
struct Check {
  at::Tensor scale;
  at::Tensor found_inf;
};

// Of gradients on the CPU: a loop of our own, as an operator for each of them takes longer than its
// arithmetic.
Check check_on_cpu(const std::vector<at::Tensor> &gradients, const std::vector<at::Tensor> &losses,
                   double limit, const at::Tensor *scale) {
  const auto sum = [&](auto squares) {
    double total = 0;
    for (const auto &gradient : gradients) {
      total += squares(gradient.template const_data_ptr<float>(), gradient.numel());
    }
    return total;
  };
  double total = sum(sum_of_squares);
  if (!std::isfinite(total)) {
    total = sum(large_sum_of_squares);
  }
  bool finite = std::isfinite(total);
  for (const auto &loss : losses) {
    finite = finite && std::isfinite(*loss.const_data_ptr<float>());
  }
  Check check;
  if (limit > 0) {
    const double least = scale == nullptr ? 1.0 : *scale->const_data_ptr<float>();
    double over = std::sqrt(total) / limit;
    if (over > std::numeric_limits<float>::max()) {
      // Nothing of 32 bits can divide by it.
      over = std::numeric_limits<double>::infinity();
      finite = false;
    }
    // A norm that is no number stays none, as it does on a device.
    check.scale = at::scalar_tensor(over < least ? least : over, at::kFloat);
  }
  check.found_inf = at::scalar_tensor(finite ? 0.0 : 1.0, at::kFloat);
  return check;
}

Check check_by_operators(const std::vector<at::Tensor> &gradients,
                         const std::vector<at::Tensor> &losses, double limit,
                         const at::Tensor *scale) {
  Check check;
  auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
  auto sum = norm;
  if (!losses.empty()) {
    sum = norm.add(at::stack(losses).sum());
  }
  check.found_inf = at::isfinite(sum).logical_not().to(at::kFloat);
  if (limit > 0) {
    auto over = norm.div_(limit);
    check.scale = scale == nullptr ? over.clamp_min_(1) : at::maximum(over, *scale);
  }
  return check;
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

// What gradients are to be divided by so that their norm, all of them together, is at most `limit`:
// the larger of `scale`, which is 1 where it is null, and the norm over the limit. Null without a
// limit. And whether a value is no number, of a gradient or of a loss. Both as new tensors.
bool millstream_check_gradients(List gradients, std::size_t count, List losses,
                                std::size_t loss_count, double limit, const at::Tensor *scale,
                                at::Tensor **divisor, at::Tensor **found_inf, char *message,
                                std::size_t message_size) noexcept {
  return guarded(message, message_size, [&] {
    auto list = with_gradients(gradients, gradients, count);
    auto all_losses = with_gradients(losses, losses, loss_count);
    const auto plain = [](const auto &tensors) {
      return std::all_of(tensors.begin(), tensors.end(), is_plain_memory);
    };
    const bool on_cpu =
        plain(list) && plain(all_losses) && (scale == nullptr || is_plain_memory(*scale));
    auto check = on_cpu ? check_on_cpu(list, all_losses, limit, scale)
                        : check_by_operators(list, all_losses, limit, scale);
    auto found = std::make_unique<at::Tensor>(std::move(check.found_inf));
    *divisor = check.scale.defined() ? new at::Tensor(std::move(check.scale)) : nullptr;
    *found_inf = found.release();
  });
}

// Counts a step in one 32-bit value, unless it is one that changes nothing.
bool millstream_count_step(const at::Tensor *steps, const at::Tensor *found_inf, char *message,
                           std::size_t message_size) noexcept {
  return guarded(message, message_size, [&] {
    if (is_plain_memory(*steps) && (found_inf == nullptr || is_plain_memory(*found_inf))) {
      *steps->mutable_data_ptr<float>() +=
          found_inf == nullptr ? 1 : 1 - *found_inf->const_data_ptr<float>();
      return;
    }
    steps->add_(1);
    if (found_inf != nullptr) {
      steps->sub_(*found_inf);
    }
  });
}

// Halves the scale of a loss where its gradients were too large for it, and doubles it after so many
// steps in a row in which they were not.
bool millstream_update_scale(at::Tensor *scale, at::Tensor *growth, const at::Tensor *found_inf,
                             std::int64_t interval, char *message,
                             std::size_t message_size) noexcept {
  return guarded(message, message_size,
                 [&] { at::_amp_update_scale_(*scale, *growth, *found_inf, 2.0, 0.5, interval); });
}

// Moves every average by this share of the way to its value.
bool millstream_average(List averages, List values, std::size_t count, double share, char *message,
                        std::size_t message_size) noexcept {
  return guarded(message, message_size, [&] {
    at::_foreach_lerp_(with_gradients(averages, averages, count),
                       with_gradients(values, values, count), share);
  });
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
