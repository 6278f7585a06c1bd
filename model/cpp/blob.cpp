// A tensor over memory that somebody else owns, and that keeps the owner alive.
//
// tch's `from_blob` has no deleter, so a view or a tensor saved for backward could outlive its
// memory. This one function closes that gap; everything else goes through tch.

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

extern "C" {

// Returns a new `at::Tensor *`, which is what tch calls a `C_tensor *`, or null with the reason
// in `message`. `device` is a CUDA device's number, or -1 for the CPU.
//
// The owner is taken over on every path: `release(owner)` runs exactly once, when the last tensor
// over the memory is gone or before this function returns null.
at::Tensor *millstream_tensor_over(float *data, const std::int64_t *sizes, std::size_t dims,
                                   int device, void *owner, void (*release)(void *),
                                   char *message, std::size_t message_size) noexcept {
  try {
    // Held by the deleter as a shared pointer, not called by it: a deleter that libtorch copies,
    // or drops without a call because it threw half-way, still releases once.
    std::shared_ptr<void> held(owner, release);
    auto place = device < 0 ? at::Device(at::kCPU)
                            : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    auto options = at::TensorOptions().dtype(at::kFloat).device(place);
    return new at::Tensor(at::from_blob(
        data, at::IntArrayRef(sizes, dims), [held](void *) {}, options, place));
  } catch (const std::exception &error) {
    std::snprintf(message, message_size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, message_size, "an exception of an unknown kind");
  }
  return nullptr;
}

} // extern "C"
