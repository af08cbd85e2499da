#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hca/hca.h"
#include "host/fabric_map.h"
#include "host/process.h"
#include "uabi/process_address.h"

namespace weft::host {

/// The HCA engines of this process: one for each HCA of its host, numbered from 0. Does not change
/// after open(); any thread.
class HcaSet {
 public:
  /// Makes the events of one HCA's engine.
  using MakeEvents = std::function<std::unique_ptr<hca::HcaEvents>(std::uint32_t hca)>;

  HcaSet() = default;
  HcaSet(const HcaSet&) = delete;
  HcaSet& operator=(const HcaSet&) = delete;

  /// Makes the engines of the HCAs that the tables give the host of `self`. Once.
  void open(const FabricMap& map, uabi::ProcessAddress self, const ProcessOptions& options,
            TimeScale time_scale, const MakeEvents& make_events);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(engines_.size()); }
  /// One that exists.
  [[nodiscard]] hca::Hca& engine(std::uint32_t hca) const { return *engines_.at(hca); }
  /// Null if there is none with that number.
  [[nodiscard]] hca::Hca* find(std::uint32_t hca) const {
    return hca < engines_.size() ? engines_[hca].get() : nullptr;
  }
  [[nodiscard]] std::span<const HostHca> descriptions() const { return descriptions_; }

 private:
  std::vector<std::unique_ptr<hca::HcaEvents>> events_;  // outlive the engines
  std::vector<std::unique_ptr<hca::Hca>> engines_;
  std::vector<HostHca> descriptions_;
};

}  // namespace weft::host
