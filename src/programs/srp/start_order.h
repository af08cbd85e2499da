#pragma once

// In which order a target begins and ends (srpt_init_module, R-SRPT-1), as a table and whoever runs
// it. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.h"

namespace weft::programs::srp {

enum class StartStep : std::uint8_t {
  Device,      ///< RDMA device, PD, shared receives, the work that others queue
  Targets,     ///< SCSI targets with their disks: the target core
  Portals,     ///< RDMA clients: whoever listens calls the targets
  Management,  ///< what device management tells leads to the portals
  Events,      ///< of the device
  Status,      ///< shows all of these
};

/// What is called is there before what calls it, and goes after it.
inline constexpr std::array kStartOrder{StartStep::Device,  StartStep::Targets,
                                        StartStep::Portals, StartStep::Management,
                                        StartStep::Events,  StartStep::Status};

/// Steps that were begun end in the other order.
class StartSequence {
 public:
  using Begin = std::function<Result<void>(StartStep step)>;
  using End = std::function<void(StartStep step)>;

  explicit StartSequence(End ends) : end_(std::move(ends)) {}
  ~StartSequence() { end(); }
  StartSequence(const StartSequence&) = delete;
  StartSequence& operator=(const StartSequence&) = delete;

  /// All steps; a step that fails has cleaned up after itself, and those before it end.
  Result<void> begin(const Begin& begins) {
    for (const StartStep step : kStartOrder) {
      if (auto begun = begins(step); !begun) {
        end();
        return begun;
      }
      ++begun_;
    }
    return {};
  }
  /// Again: nothing.
  void end() {
    while (begun_ != 0) {
      end_(kStartOrder[--begun_]);
    }
  }

 private:
  const End end_;
  std::size_t begun_{};
};

}  // namespace weft::programs::srp
