#pragma once

// In which order a target begins and ends (srpt_init_module, R-SRPT-1; srpt_add_one, R-SRPT-2), as
// tables and whoever runs them. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/result.h"

namespace weft::programs::srp {

enum class StartStep : std::uint8_t {
  // Of the program:
  Targets,  ///< SCSI targets with their disks: the target core
  Status,   ///< shows all
  Devices,  ///< RDMA clients: who looks for a device, or waits for one
  // Of a device, as often as one comes:
  Device,      ///< RDMA device, PD, shared receives, the work that others queue
  Names,       ///< the targets' port identifiers, which are the device's
  Portals,     ///< whoever listens calls the targets
  Management,  ///< what device management tells leads to the portals
  Events,      ///< of the device
};

/// What is called is there before what calls it, and goes after it.
inline constexpr std::array kStartOrder{StartStep::Targets, StartStep::Status, StartStep::Devices};
inline constexpr std::array kDeviceOrder{StartStep::Device, StartStep::Names, StartStep::Portals,
                                         StartStep::Management, StartStep::Events};

/// Steps that were begun end in the other order.
class StartSequence {
 public:
  using Begin = std::function<Result<void>(StartStep step)>;
  using End = std::function<void(StartStep step)>;

  /// The order outlives it.
  StartSequence(std::span<const StartStep> order, End ends)
      : order_(order), end_(std::move(ends)) {}
  ~StartSequence() { end(); }
  StartSequence(const StartSequence&) = delete;
  StartSequence& operator=(const StartSequence&) = delete;

  /// All steps; a step that fails has cleaned up after itself, and those before it end.
  Result<void> begin(const Begin& begins) {
    for (const StartStep step : order_) {
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
      end_(order_[--begun_]);
    }
  }

 private:
  const std::span<const StartStep> order_;
  const End end_;
  std::size_t begun_{};
};

}  // namespace weft::programs::srp
