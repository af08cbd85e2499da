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

/// The attribute data of an SMP.
using SmpData = std::array<std::byte, wire::kSmpDataBytes>;

/// A request to an SMA, or to the SM of a node.
struct SmpRequest {
  PortId to{};          ///< kNoNode: the SM's local node
  PortNumber egress{};  ///< nonzero: addresses the node at the other end of this port's cable
  wire::SmpAttribute attribute{};
  std::uint32_t modifier{};
  bool is_set{};
};

/// Response to an SmpRequest, or its absence.
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

/// Sends directed-route SMPs, many in flight. Not thread-safe.
class SmpClient {
 public:
  using Handler = std::function<void(const SmpRequest&, const SmpAnswer&, Instant)>;

  /// `agent` is an agent of the directed-route class of `interface`.
  SmpClient(mad::ManagementInterface& interface, mad::AgentId agent,
            const SubnetManagerOptions& options)
      : interface_(interface), agent_(agent), options_(options) {}

  [[nodiscard]] bool has_room() const { return in_flight_.size() < options_.smps_in_flight; }
  [[nodiscard]] bool is_idle() const { return in_flight_.empty(); }

  /// `handler` is called once, unless cancel() or forget() comes first.
  void send(const DirectedRoute& route, const SmpRequest& request, const SmpData& data,
            Handler handler, Instant now);
  /// Drops all pending requests without calling handlers and stops their retries: a delayed Set
  /// could undo a later write.
  void cancel(Instant now);
  /// As cancel(), but calls each handler with `is_answered` false.
  void give_up(Instant now);
  /// As cancel(), for use when the agent is about to be unregistered.
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
  InFlight in_flight_;  // in the order sent
  std::uint64_t last_serial_{};
};

}  // namespace weft::subnet
