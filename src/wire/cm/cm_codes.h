#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::wire {

inline constexpr std::uint8_t kCmClassVersion = 2;  ///< of class ComMgt
inline constexpr std::size_t kCmDataBytes = 232;    ///< data of every message, after the MAD header

/// Messages of the class ComMgt (IBTA vol 1 §12.6). All go by method Send.
enum class CmAttribute : std::uint16_t {
  Req = 0x10,
  Mra = 0x11,
  Rej = 0x12,
  Rep = 0x13,
  Rtu = 0x14,
  Dreq = 0x15,
  Drep = 0x16,
  SidrReq = 0x17,
  SidrRep = 0x18,
  Lap = 0x19,
  Apr = 0x1A,
};
inline constexpr std::size_t kCmAttributeCount = 11;

/// Transport Service Type of a REQ (IBTA vol 1 §12.7.15); 3 selects the extended type.
enum class CmTransport : std::uint8_t { Rc = 0, Uc = 1, Rd = 2, Extended = 3 };
enum class CmExtendedTransport : std::uint8_t { None = 0, Xrc = 1 };

/// The message that an MRA or REJ refers to (IBTA vol 1 §12.6.6, §12.6.7).
enum class CmSubject : std::uint8_t { Req = 0, Rep = 1, LapOrNothing = 2 };

/// Rejection reasons (IBTA vol 1 §12.6.7.2). Comments give the contents of the Additional Reject
/// Information (ARI).
enum class RejectReason : std::uint16_t {
  NoQp = 1,
  NoEec = 2,
  NoResources = 3,
  Timeout = 4,  ///< ARI: the sender's CA GUID
  Unsupported = 5,
  InvalidCommunicationId = 6,
  InvalidCommunicationInstance = 7,
  InvalidServiceId = 8,
  InvalidTransportType = 9,
  StaleConnection = 10,
  RdcDoesNotExist = 11,
  InvalidGid = 12,           ///< ARI: an acceptable GID
  InvalidLid = 13,           ///< ARI: an acceptable LID
  InvalidSl = 14,            ///< ARI: an acceptable SL
  InvalidTrafficClass = 15,  ///< ARI: an acceptable value, as for all reasons up to 23
  InvalidHopLimit = 16,
  InvalidPacketRate = 17,
  InvalidAlternateGid = 18,
  InvalidAlternateLid = 19,
  InvalidAlternateSl = 20,
  InvalidAlternateTrafficClass = 21,
  InvalidAlternateHopLimit = 22,
  InvalidAlternatePacketRate = 23,
  PortAndCmRedirection = 24,  ///< ARI: a ClassPortInfo
  PortRedirection = 25,       ///< ARI: the port to use
  InvalidPathMtu = 26,        ///< ARI: the largest acceptable MTU
  InsufficientResponderResources = 27,
  ConsumerReject = 28,  ///< ARI: defined by the consumer
  RnrRetryCountReject = 29,
  DuplicateLocalCommunicationId = 30,
  InvalidClassVersion = 31,  ///< ARI: the supported version
  InvalidFlowLabel = 32,
  InvalidAlternateFlowLabel = 33,
  VendorOptionNotSupported = 35,
};

/// IBTA vol 1 §12.6.9.
enum class AprStatus : std::uint8_t {
  Success = 0,
  InvalidCommunicationId = 1,
  Unsupported = 2,
  Rejected = 3,
  Redirect = 4,
  IsCurrentPath = 5,
  InvalidQpn = 6,
  InvalidLid = 7,
  InvalidGid = 8,
  InvalidFlowLabel = 9,
  InvalidTrafficClass = 10,
  InvalidHopLimit = 11,
  InvalidPacketRate = 12,
  InvalidSl = 13,
};

/// IBTA vol 1 §12.11.2.
enum class SidrStatus : std::uint8_t {
  Success = 0,
  Unsupported = 1,
  Rejected = 2,
  NoQp = 3,
  Redirect = 4,
  UnsupportedVersion = 5,
};

/// Description of a code; empty if the number is reserved.
[[nodiscard]] std::string_view name_of(CmAttribute attribute);
[[nodiscard]] std::string_view name_of(RejectReason reason);
[[nodiscard]] std::string_view name_of(AprStatus status);
[[nodiscard]] std::string_view name_of(SidrStatus status);

}  // namespace weft::wire
