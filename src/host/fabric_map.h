#pragma once

// This process's view of the fabric: the newest tables, and the queries that lanes make. Callers
// cache results by generation, so the lock here is off the data path. Any thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/lock.h"
#include "base/result.h"
#include "fabric/path.h"
#include "fabric/tables.h"
#include "os/shared_memory.h"
#include "uabi/messages.h"

namespace weft::host {

/// The newest generation of the fabric's tables.
class FabricMap {
 public:
  /// Replaces the tables; refuses an image that is malformed or not newer.
  [[nodiscard]] Result<void> replace(os::Mapping image);

  [[nodiscard]] std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

  /// Calls `ask(const fabric::TablesView&)` and returns its result; the view is valid only inside
  /// the call.
  template <class Ask>
  auto ask(Ask ask) const {
    const std::lock_guard guard{lock_};
    return ask(*view_);
  }

  /// The path from the port of `node` that owns `slid`; an undeliverable path if no port does, or
  /// if it maps the service level to VL15.
  [[nodiscard]] fabric::Path resolve(std::uint32_t node, Lid slid, Lid dlid, ServiceLevel sl) const;
  /// The tree from the port of `node` that owns `slid` to the members of `mlid`, likewise.
  [[nodiscard]] fabric::MulticastTree resolve_multicast(std::uint32_t node, Lid slid, Lid mlid,
                                                        ServiceLevel sl) const;

  /// The node whose port owns `lid`, or that of the virtual function that has the QP.
  [[nodiscard]] std::optional<std::uint32_t> node_of(Lid lid, Qpn qpn) const;

  /// Checks that a process of `node` may use these source addresses; returns the fault if not.
  /// `sgid` may be null.
  [[nodiscard]] std::optional<uabi::RecordFault> validate_source(std::uint32_t node, Lid slid,
                                                                 PKey pkey, const Gid* sgid) const;

  /// The HCA (counted from 0 within its host) and port of `node` that own `lid`.
  struct LocalPort {
    std::uint32_t hca{};
    PortNumber port;
    bool operator==(const LocalPort&) const = default;
  };
  [[nodiscard]] std::optional<LocalPort> local_port(std::uint32_t node, Lid lid) const;

  /// A port of `node` that a multicast packet reaches. Includes the sending port, for its own
  /// members.
  struct MulticastArrival {
    LocalPort at;
    bool is_sender{};
    bool operator==(const MulticastArrival&) const = default;
  };
  [[nodiscard]] std::vector<MulticastArrival> multicast_arrivals(std::uint32_t node,
                                                                 std::uint32_t sender, Lid slid,
                                                                 Lid mlid) const;

 private:
  mutable std::mutex lock_;
  os::Mapping image_;
  std::optional<fabric::TablesView> view_;
  std::atomic<std::uint64_t> generation_{};
};

}  // namespace weft::host
