// Counts the operators that libtorch runs for one thread, by name and by whether they read something
// large: what a step costs where a clock would say only how busy the machine is.

#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace {

struct Counts {
  std::int64_t large;
  // How many calls, and how many of them with an input of so many values.
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_name;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

// Callbacks have no argument of their own.
thread_local Counts *counting = nullptr;

std::int64_t largest_of(const c10::IValue &value) {
  if (value.isTensor()) {
    const auto &tensor = value.toTensor();
    return tensor.defined() ? tensor.numel() : 0;
  }
  std::int64_t largest = 0;
  if (value.isTensorList()) {
    for (const at::Tensor &tensor : value.toTensorList()) {
      largest = std::max(largest, tensor.defined() ? tensor.numel() : 0);
    }
  }
  return largest;
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction &function) {
  if (counting != nullptr) {
    auto &[calls, large] = counting->by_name[function.name()];
    calls += 1;
    std::int64_t largest = 0;
    for (const auto &input : function.inputs()) {
      largest = std::max(largest, largest_of(input));
    }
    large += largest >= counting->large ? 1 : 0;
  }
  return nullptr;
}

} // namespace

extern "C" {

// Begins to count on this thread; an input of `large` values is large. Null where somebody counts
// already, or there is no memory.
Counts *millstream_count_operators(std::int64_t large) noexcept {
  if (counting != nullptr) {
    return nullptr;
  }
  try {
    auto counts = std::make_unique<Counts>();
    counts->large = large;
    counts->handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count)
                                                    .needsInputs(true)
                                                    .scopes({at::RecordScope::FUNCTION}));
    counting = counts.get();
    return counts.release();
  } catch (...) {
    return nullptr;
  }
}

// Ends it, and calls `tell` with every operator that was seen.
void millstream_end_counting(Counts *counts,
                             void (*tell)(void *to, const char *name, std::int64_t calls,
                                          std::int64_t large),
                             void *to) noexcept {
  at::removeCallback(counts->handle);
  counting = nullptr;
  std::unique_ptr<Counts> ended(counts);
  for (const auto &[name, calls] : ended->by_name) {
    tell(to, name.c_str(), calls.first, calls.second);
  }
}

} // extern "C"
