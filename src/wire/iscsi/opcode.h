#pragma once

#include <cstdint>
#include <string_view>

namespace weft::wire::iscsi {

/// What a PDU is (RFC 7143 §11.2.1.2): 6 bits, requests of the initiator below 0x20.
enum class Opcode : std::uint8_t {
  NopOut = 0x00,
  ScsiCommand = 0x01,
  TaskManagementRequest = 0x02,
  LoginRequest = 0x03,
  TextRequest = 0x04,
  DataOut = 0x05,
  LogoutRequest = 0x06,
  SnackRequest = 0x10,
  NopIn = 0x20,
  ScsiResponse = 0x21,
  TaskManagementResponse = 0x22,
  LoginResponse = 0x23,
  TextResponse = 0x24,
  DataIn = 0x25,
  LogoutResponse = 0x26,
  R2t = 0x31,
  AsyncMessage = 0x32,
  Reject = 0x3F,
};

/// The RFC's name of a PDU, or "reserved opcode".
[[nodiscard]] std::string_view to_string(Opcode opcode);

/// Initiator Task Tag and Target Transfer Tag that stand for none (RFC 7143 §11.2.1.8, §11.7.4).
inline constexpr std::uint32_t kNoTag = 0xFFFF'FFFF;

}  // namespace weft::wire::iscsi
