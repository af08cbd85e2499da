#pragma once

// This process's view of the fabric: the newest tables, and the questions that lanes ask of them.
// Answers are cached by generation by whoever asks, so the lock here is off the data path.

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

class FabricMap {
 public:
  /// Replaces the tables; refuses an image that is not well-formed or not newer.
  [[nodiscard]] Result<void> replace(os::Mapping image);

  [[nodiscard]] std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

  /// Calls `ask(const fabric::TablesView&)` and returns its answer; the view is valid inside only.
  template <class Ask>
  auto ask(Ask ask) const {
    const std::lock_guard guard{lock_};
    return ask(*view_);
  }

  /// The path from the port of `node` that owns `slid`; without one, an undeliverable path.
  [[nodiscard]] fabric::Path resolve(std::uint32_t node, Lid slid, Lid dlid) const;
  [[nodiscard]] fabric::MulticastTree resolve_multicast(std::uint32_t node, Lid slid,
                                                        Lid mlid) const;

  /// The node whose port owns `lid`.
  [[nodiscard]] std::optional<std::uint32_t> node_of(Lid lid) const;

  /// What no process of `node` sends truthfully about these addresses; nothing if it may. `sgid`
  /// may be null.
  [[nodiscard]] std::optional<uabi::RecordFault> validate_source(std::uint32_t node, Lid slid,
                                                                 PKey pkey, const Gid* sgid) const;

  /// Which HCA (counted from 0 within its host) and port of `node` own `lid`.
  struct LocalPort {
    std::uint32_t hca{};
    PortNumber port;
    bool operator==(const LocalPort&) const = default;
  };
  [[nodiscard]] std::optional<LocalPort> local_port(std::uint32_t node, Lid lid) const;

  /// A port of `node` that a multicast packet reaches; the one that sent it is among them, for the
  /// members that it has itself.
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
