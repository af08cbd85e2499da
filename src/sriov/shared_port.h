#pragma once

// A port of an HCA that virtual functions share, as who carries MADs sees it: each function sends
// and receives by a management interface of its own, the port by the physical function's QP1. What
// is between them, tunnels and the multiplexer, is inside. QP0 is the physical function's alone
// and does not come here, but for what a virtual function sends there, which goes nowhere.
//
// It also says what each function's port looks like: its LID is the physical port's, its GID its
// own, and it is Active only with a GUID that SA has registered. One thread at a time.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"
#include "sriov/multiplexer.h"
#include "sriov/types.h"
#include "verbs/port_state.h"

namespace weft::sriov {

/// The physical port, as subnet management has set it up.
struct PhysicalPort {
  verbs::PortState state{verbs::PortState::Down};
  Lid lid{};
  Lid manager_lid{};
  std::uint8_t reregistrations{};  ///< requests of ClientReregister, modulo 256
  std::vector<PKey> pkeys{};
  std::vector<Gid> gids{};  ///< its GID table; entries of functions that have none are empty
  bool operator==(const PhysicalPort&) const = default;
};

/// A function's port, as its user sees it.
struct VirtualPort {
  verbs::PortState state{verbs::PortState::Down};
  Lid lid{};
  std::optional<Gid> gid{};  ///< none until SA has registered it
  std::vector<PKey> pkeys{};
  bool operator==(const VirtualPort&) const = default;
};

/// A MAD that has come for a function.
struct FunctionMad {
  FunctionId function{};
  mad::InterfaceKind kind{mad::InterfaceKind::Gsi};
  mad::MadAddress source{};  ///< `global->sgid_index` is in the function's own GID table
  MadBytes bytes{};
};

class SharedPort {
 public:
  explicit SharedPort(const MultiplexerOptions& options, Instant now) : mux_(options, now) {}

  /// The port was changed by its SMA; equal values change nothing.
  void update(const PhysicalPort& port, Instant now);

  /// As Multiplexer::add_function and remove_function.
  [[nodiscard]] Result<void> add(FunctionId function, const FunctionOptions& options, Instant now);
  [[nodiscard]] Result<void> remove(FunctionId function, Instant now);
  /// As Multiplexer::change_function.
  [[nodiscard]] Result<void> change(FunctionId function, const FunctionOptions& options) {
    return mux_.change_function(function, options);
  }
  /// As Multiplexer::set_guid.
  [[nodiscard]] Result<void> set_guid(FunctionId function, Guid guid, Instant now) {
    return mux_.set_guid(function, guid, now);
  }
  /// As Multiplexer::export_function and import_function: a function moves to another port.
  [[nodiscard]] Result<FunctionState> export_function(FunctionId function, Instant now);
  [[nodiscard]] Result<std::vector<std::uint32_t>> import_function(FunctionId function,
                                                                   const FunctionOptions& options,
                                                                   const FunctionState& state,
                                                                   Instant now);

  /// A MAD that a function's interface sends. The P_Key must be one of the function's.
  void send(FunctionId function, mad::InterfaceKind kind, const mad::MadPacket& packet,
            Instant now);
  /// A MAD that QP1 of the port has received. `source.global->sgid_index` is the entry of the
  /// port's GID table that it was sent to.
  void receive(const mad::MadAddress& source, const MadBytes& bytes, Instant now);

  /// The next MAD that leaves by QP1 of the port; `global->sgid_index` is in its GID table.
  [[nodiscard]] std::optional<mad::MadPacket> poll_transmit(Instant now);
  /// The next MAD for a function's interface.
  [[nodiscard]] std::optional<FunctionMad> poll_receive();
  [[nodiscard]] std::optional<Multiplexer::FunctionEvent> poll_event() { return mux_.poll_event(); }
  void handle_timeout(Instant now);
  [[nodiscard]] Instant poll_deadline() const { return mux_.poll_deadline(); }

  [[nodiscard]] VirtualPort port_of(FunctionId function) const;
  [[nodiscard]] Multiplexer& multiplexer() { return mux_; }
  [[nodiscard]] const Multiplexer& multiplexer() const { return mux_; }

 private:
  [[nodiscard]] std::optional<std::uint16_t> index_of(FunctionId function, PKey pkey) const;
  void forget(FunctionId function);
  void collect();

  Multiplexer mux_;
  PhysicalPort port_;
  std::vector<FunctionId> functions_{kPhysicalFunction};
  std::deque<FunctionMad> received_;
};

}  // namespace weft::sriov
