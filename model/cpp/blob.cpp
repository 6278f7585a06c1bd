// Tensors over memory that somebody else owns, and that keep the owner alive.
//
// tch's `from_blob` has no deleter, so a view or a tensor saved for backward could outlive its
// memory. This one function closes that gap; what else tch lacks is in `fused.cpp`.

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

extern "C" {

// A part of the memory: `sizes` of `dims` dimensions, from its `start`-th value on.
struct MillstreamPart {
  std::int64_t start;
  std::int64_t sizes[3];
  std::size_t dims;
};

// Makes a new `at::Tensor *`, which is what tch calls a `C_tensor *`, of every part of the memory;
// or returns false with the reason in `message`. `device` is a CUDA device's number, or -1 for the
// CPU.
//
// The owner is taken over on every path: `release(owner)` runs exactly once, when the last tensor
// over the memory is gone or before this function returns false.
bool millstream_tensors_over(float *data, std::int64_t values, const MillstreamPart *parts,
                             std::size_t count, int device, void *owner, void (*release)(void *),
                             at::Tensor **tensors, char *message,
                             std::size_t message_size) noexcept {
  try {
    // Held by the deleter as a shared pointer, not called by it: a deleter that libtorch copies,
    // or drops without a call because it threw half-way, still releases once.
    std::shared_ptr<void> held(owner, release);
    // libtorch keeps it in 8 bits, and only a debug build of it looks.
    if (device > std::numeric_limits<c10::DeviceIndex>::max()) {
      throw std::out_of_range("libtorch numbers no device so high");
    }
    auto place = device < 0 ? at::Device(at::kCPU)
                            : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    auto options = at::TensorOptions().dtype(at::kFloat).device(place);
    auto whole = at::from_blob(
        data, {values}, [held = std::move(held)](void *) {}, options, place);
    // Tensors of one storage, as slices would be, without an operator for each.
    std::vector<std::unique_ptr<at::Tensor>> made;
    made.reserve(count);
    for (std::size_t i = 0; i < count; i++) {
      auto part = at::detail::make_tensor<c10::TensorImpl>(
          c10::Storage(whole.storage()), whole.key_set(), whole.dtype());
      part.unsafeGetTensorImpl()->set_storage_offset(parts[i].start);
      part.unsafeGetTensorImpl()->set_sizes_contiguous(
          at::IntArrayRef(parts[i].sizes, parts[i].dims));
      made.push_back(std::make_unique<at::Tensor>(std::move(part)));
    }
    for (std::size_t i = 0; i < count; i++) {
      tensors[i] = made[i].release();
    }
    return true;
  } catch (const std::exception &error) {
    std::snprintf(message, message_size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, message_size, "an exception of an unknown kind");
  }
  return false;
}

} // extern "C"
