// Whether scripts are rewritten while they run.
//
// libtorch watches the first calls of a script and then computes it, and its gradients, in other
// steps, with other roundings and other random numbers: a run that goes on would not be the run that
// was interrupted. tch has no switch for it but one of the whole process; this is one of the thread.

#include <torch/csrc/jit/python/update_graph_executor_opt.h>

extern "C" {

// Returns how it was.
bool millstream_optimize_scripts(bool on) noexcept {
  bool before = torch::jit::getGraphExecutorOptimize();
  torch::jit::setGraphExecutorOptimize(on);
  return before;
}

} // extern "C"
