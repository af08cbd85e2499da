#pragma once

#include <cstddef>
#include <cstdint>

#include "hca/types.h"

/// The kinds of operations of an RC scenario's ends, and what their memory holds (RcEnd).
namespace weft::sim {

/// Of messages, by the area of memory that they fill.
enum Stream : std::uint64_t {
  kSendStream = 1,
  kWriteStream = 2,
  kSourceStream = 3,
  kGuardStream = 4
};

/// All of the memory that a region had before.
inline constexpr std::byte kLeft{0xA5};

[[nodiscard]] constexpr bool is_send(hca::WrOpcode opcode) {
  return opcode == hca::WrOpcode::Send || opcode == hca::WrOpcode::SendWithImmediate;
}
[[nodiscard]] constexpr bool is_write(hca::WrOpcode opcode) {
  return opcode == hca::WrOpcode::RdmaWrite || opcode == hca::WrOpcode::RdmaWriteWithImmediate;
}
[[nodiscard]] constexpr bool is_atomic(hca::WrOpcode opcode) {
  return opcode == hca::WrOpcode::FetchAdd || opcode == hca::WrOpcode::CompareSwap;
}
/// Whether a peer needs this right for it.
[[nodiscard]] constexpr bool is_for(hca::WrOpcode opcode, hca::Access right) {
  return right == hca::Access::RemoteRead     ? opcode == hca::WrOpcode::RdmaRead
         : right == hca::Access::RemoteAtomic ? is_atomic(opcode)
                                              : opcode == hca::WrOpcode::RdmaWrite;
}
[[nodiscard]] constexpr bool takes_receive(hca::WrOpcode opcode) {
  return is_send(opcode) || opcode == hca::WrOpcode::RdmaWriteWithImmediate;
}

}  // namespace weft::sim
