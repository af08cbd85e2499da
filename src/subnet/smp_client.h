#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "base/identifiers.h"
#include "base/time.h"
#include "mad/management_interface.h"
#include "subnet/subnet.h"
#include "subnet/subnet_manager_options.h"
#include "wire/layout.h"
#include "wire/mad/smp.h"

namespace weft::subnet {

using SmpData = std::array<std::byte, wire::kSmpDataBytes>;

/// What is asked of an SMA, or of the SM behind it.
struct SmpRequest {
  PortId to{};          ///< kNoNode: the SM's own node
  PortNumber egress{};  ///< not 0: of what is across the cable of that port
  wire::SmpAttribute attribute{};
  std::uint32_t modifier{};
  bool is_set{};
};

struct SmpAnswer {
  bool is_answered{};
  std::uint16_t status{};
  SmpData data{};

  [[nodiscard]] bool is_good() const { return is_answered && status == 0; }
  template <wire::WireType T>
  [[nodiscard]] T as() const {
    return wire::unpack<T>(std::span{data}.first<wire::kSizeOf<T>>());
  }
};

template <wire::WireType T>
[[nodiscard]] SmpData smp_data(const T& value) {
  SmpData data{};
  wire::pack(value, std::span{data}.first<wire::kSizeOf<T>>());
  return data;
}

/// SMPs by directed route, many in flight. One thread.
class SmpClient {
 public:
  using Handler = std::function<void(const SmpRequest&, const SmpAnswer&, Instant)>;

  /// `agent` is one of the directed route class of `interface`.
  SmpClient(mad::ManagementInterface& interface, mad::AgentId agent,
            const SubnetManagerOptions& options)
      : interface_(interface), agent_(agent), options_(options) {}

  [[nodiscard]] bool has_room() const { return in_flight_.size() < options_.smps_in_flight; }
  [[nodiscard]] bool is_idle() const { return in_flight_.empty(); }

  /// The handler is called once, unless cancel() or forget() comes first.
  void send(const DirectedRoute& route, const SmpRequest& request, const SmpData& data,
            Handler handler, Instant now);
  /// Nobody wants the answers any more, and what was asked is not repeated: a Set that came late
  /// would undo what was written since.
  void cancel(Instant now);
  /// Likewise, but each handler is told that there was no answer.
  void give_up(Instant now);
  /// As cancel(), when the agent is about to go.
  void forget() { in_flight_.clear(); }

 private:
  struct Pending {
    SmpRequest request;
    Handler handler;
    mad::TransactionId transaction{};
  };
  using InFlight = std::map<std::uint64_t, Pending>;

  [[nodiscard]] InFlight take_back(Instant now);
  void finish(std::uint64_t serial, const mad::Completion& completion);

  mad::ManagementInterface& interface_;
  mad::AgentId agent_;
  const SubnetManagerOptions& options_;
  InFlight in_flight_;  // in the order of sending
  std::uint64_t last_serial_{};
};

}  // namespace weft::subnet
