// Autocast of any dtype on any device: tch knows it for CUDA alone, with the dtype that is the default
// there.

#include <ATen/autocast_mode.h>

namespace {

at::DeviceType type_of(int device) { return device < 0 ? at::kCPU : at::kCUDA; }

} // namespace

extern "C" {

// As in `precision.rs`: what autocast was on a device, below 0 for the CPU.
struct MillstreamAutocast {
  int device;
  bool enabled;
  int dtype;
};

// Switches autocast on and notes in `before` what it was. `half` says which of the two small types.
void millstream_autocast_enter(int device, bool half, MillstreamAutocast *before) noexcept {
  const auto type = type_of(device);
  before->device = device;
  before->enabled = at::autocast::is_autocast_enabled(type);
  before->dtype = static_cast<int>(at::autocast::get_autocast_dtype(type));
  at::autocast::increment_nesting();
  at::autocast::set_autocast_dtype(type, half ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_enabled(type, true);
}

// Makes it what it was. Whoever leaves the outermost one forgets the weights that were cast, which
// change with the next step.
void millstream_autocast_leave(const MillstreamAutocast *before) noexcept {
  const auto type = type_of(before->device);
  at::autocast::set_autocast_enabled(type, before->enabled);
  at::autocast::set_autocast_dtype(type, static_cast<at::ScalarType>(before->dtype));
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
}

} // extern "C"
