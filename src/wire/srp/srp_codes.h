#pragma once

// Numbers of the SCSI RDMA Protocol, from T10's draft SRP r16a and, for immediate data, SRP-2.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::wire {

/// First octet of an information unit. Bit 7: sent by the target; bit 6: a response.
enum class SrpOpcode : std::uint8_t {
  LoginReq = 0x00,
  TskMgmt = 0x01,
  Cmd = 0x02,
  ILogout = 0x03,
  CredRsp = 0x41,
  AerRsp = 0x42,
  TLogout = 0x80,
  CredReq = 0x81,
  AerReq = 0x82,
  LoginRsp = 0xC0,
  Rsp = 0xC1,
  LoginRej = 0xC2,
};

/// Half an octet of SRP_CMD for each direction.
enum class SrpBufferFormat : std::uint8_t {
  None = 0,
  Direct = 1,
  Indirect = 2,
  Immediate = 3,  ///< SRP-2, data-out only
};

/// Buffer formats in logins: those that the initiator requires, those that the target supports.
inline constexpr std::uint16_t kSrpDirectFormat = 1U << 1;
inline constexpr std::uint16_t kSrpIndirectFormat = 1U << 2;

/// MULTI-CHANNEL ACTION of SRP_LOGIN_REQ.
enum class SrpMultichannel : std::uint8_t { Single = 0, Independent = 1 };

/// MULTI-CHANNEL RESULT of SRP_LOGIN_RSP: what became of earlier channels of the same nexus.
enum class SrpMultichannelResult : std::uint8_t { None = 0, Terminated = 1, Maintained = 2 };

enum class SrpLoginRejReason : std::uint32_t {
  UnableToEstablishChannel = 0x0001'0000,
  InsufficientResources = 0x0001'0001,
  RequestIuTooLarge = 0x0001'0002,
  UnableToAssociateChannel = 0x0001'0003,
  UnsupportedDescriptorFormat = 0x0001'0004,
  MultichannelUnsupported = 0x0001'0005,
  ChannelLimitReached = 0x0001'0006,
};

/// TASK MANAGEMENT FUNCTION of SRP_TSK_MGMT.
enum class SrpTaskFunction : std::uint8_t {
  AbortTask = 0x01,
  AbortTaskSet = 0x02,
  ClearTaskSet = 0x04,
  LogicalUnitReset = 0x08,
  ClearAca = 0x40,
};

/// Octet 3 of the response data.
enum class SrpResponseCode : std::uint8_t {
  Complete = 0,
  InvalidRequest = 1,
  InvalidField = 2,
  NotSupported = 4,
  Failed = 5,
};

/// TASK ATTRIBUTE of SRP_CMD.
enum class SrpTaskAttribute : std::uint8_t { Simple = 0, HeadOfQueue = 1, Ordered = 2, Aca = 4 };

/// Flags of SRP_RSP. The residual ones stand in this order: data-out, data-in; over, under.
enum class SrpResponseFlag : std::uint8_t {
  ResponseValid = 0x01,
  SenseValid = 0x02,
  DataOutOver = 0x04,
  DataOutUnder = 0x08,
  DataInOver = 0x10,
  DataInUnder = 0x20,
};

/// INITIATOR PORT IDENTIFIER or TARGET PORT IDENTIFIER: an extension and a GUID, 8 octets each.
using SrpPortId = std::array<std::byte, 16>;

/// Where immediate data begins in an SRP_CMD unless the login says otherwise: behind the command,
/// its descriptor, and an additional CDB of 16 octets.
inline constexpr std::uint16_t kSrpDefaultImmediateOffset = 68;

/// Empty if the number is reserved.
[[nodiscard]] std::string_view name_of(SrpOpcode opcode);
[[nodiscard]] std::string_view name_of(SrpLoginRejReason reason);
[[nodiscard]] std::string_view name_of(SrpTaskFunction function);
[[nodiscard]] std::string_view name_of(SrpResponseCode code);

}  // namespace weft::wire
