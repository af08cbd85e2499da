#pragma once

// A tunnel: the pair of UD QPs through which all MADs of one function's QP0 or QP1 at one port go.
// The proxy QP is the function's end, the tunnel QP the physical function's. Between them lie two
// rings of tunnelled MADs. One thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "sriov/types.h"
#include "wire/sriov/tunnel_headers.h"

namespace weft::sriov {

enum class TunnelState : std::uint8_t { Down, Starting, Active, Downing };

enum class TunnelInput : std::uint8_t {
  Open,    ///< both QPs are being made
  Opened,  ///< both are in RTS, and buffers are posted
  Close,   ///< no MAD enters any more
  Closed,  ///< both QPs are gone
};

[[nodiscard]] std::string_view name_of(TunnelState state);
/// None if the input is not allowed in the state.
[[nodiscard]] std::optional<TunnelState> next_state(TunnelState state, TunnelInput input);

/// Numbers of the QPs of tunnels at a port, as mlx4 lays them out: eight in a row for each
/// function, of which bit 1 says QP1 and bit 0 the port.
struct TunnelNumbers {
  Qpn proxy_base{};
  Qpn tunnel_base{};
  PortNumber port{1};  ///< 1 or 2

  [[nodiscard]] Qpn proxy(FunctionId function, SpecialQp qp) const {
    return Qpn{proxy_base.value() + offset(function, qp)};
  }
  [[nodiscard]] Qpn tunnel(FunctionId function, SpecialQp qp) const {
    return Qpn{tunnel_base.value() + offset(function, qp)};
  }
  [[nodiscard]] QKey qkey(FunctionId function, SpecialQp qp) const {
    return QKey{wire::kFirstTunnelQKey + offset(function, qp)};
  }

 private:
  [[nodiscard]] std::uint32_t offset(FunctionId function, SpecialQp qp) const {
    return 8U * function.value() + 2U * static_cast<std::uint32_t>(qp) + port.value() - 1U;
  }
};

/// A tunnelled MAD as the UD datagram that it is between the two QPs of its tunnel; `payload` is a
/// wire::TunnelSend or, to the function, a wire::TunnelReceive, and valid during the call only.
struct TunnelDatagram {
  FunctionId function{};
  bool is_to_function{};
  Qpn source_qp{};
  Qpn dest_qp{};
  QKey qkey{};
  std::span<const std::byte> payload{};
};

class Tunnel {
 public:
  static constexpr std::size_t kRingSlots = 512;  ///< as mlx4
  using Buffer = std::array<std::byte, wire::kSizeOf<wire::TunnelSend>>;

  /// `ring_slots` of each direction, a power of two.
  explicit Tunnel(std::size_t ring_slots = kRingSlots);

  [[nodiscard]] TunnelState state() const { return state_; }
  /// InvalidArgument if the input is not allowed in the state. Closing empties both rings.
  [[nodiscard]] Result<void> handle(TunnelInput input);

  /// The function's side. TryAgain: not active, or the ring is full.
  [[nodiscard]] Result<void> post_send(Qpn source_qp, const Buffer& buffer);
  [[nodiscard]] std::optional<Buffer> take_receive();
  /// Sends whose buffers the function has back, whatever became of the MADs.
  [[nodiscard]] std::uint64_t completed_sends() const { return completed_sends_; }

  /// The physical function's side. TryAgain as above.
  struct Send {
    Qpn source_qp{};
    Buffer buffer{};
  };
  [[nodiscard]] std::optional<Send> take_send();
  [[nodiscard]] Result<void> post_receive(const Buffer& buffer);

  void check_invariants() const;

 private:
  [[nodiscard]] Result<void> check_room(std::size_t used) const;

  std::size_t ring_slots_;
  TunnelState state_{TunnelState::Down};
  std::deque<Send> sends_;
  std::deque<Buffer> receives_;
  std::uint64_t completed_sends_{};
};

}  // namespace weft::sriov
