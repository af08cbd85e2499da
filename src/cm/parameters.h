#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/serial.h"
#include "base/time.h"
#include "cm/types.h"
#include "wire/cm/cm_codes.h"

/// What callers tell the manager. Private data and additional information are read during the call
/// only; shorter than their field, they are followed by zeros.
namespace weft::cm {

/// Bytes of private data that a message has room for (IBTA vol 1 §12.6).
inline constexpr std::size_t kReqPrivateData = 92;
inline constexpr std::size_t kMraPrivateData = 222;
inline constexpr std::size_t kRejPrivateData = 148;
inline constexpr std::size_t kRepPrivateData = 196;
inline constexpr std::size_t kRtuPrivateData = 224;
inline constexpr std::size_t kDreqPrivateData = 220;
inline constexpr std::size_t kDrepPrivateData = 224;
inline constexpr std::size_t kLapPrivateData = 168;
inline constexpr std::size_t kAprPrivateData = 148;
inline constexpr std::size_t kSidrReqPrivateData = 216;
inline constexpr std::size_t kSidrRepPrivateData = 136;
inline constexpr std::size_t kAdditionalInformation = 72;  ///< of REJ, APR and SIDR_REP

/// Asks `listen` for an unused service id (R-CML-1). All others that begin with this octet are the
/// manager's to give (R-CML-2).
inline constexpr std::uint64_t kAssignServiceId = 0x0200'0000'0000'0000;
inline constexpr std::uint64_t kExactServiceId = ~std::uint64_t{0};  ///< as a mask

/// Takes only REQs and SIDR_REQs whose private data begins so: octets that have a bit in `mask`
/// must equal those of `value` in it. Both are of the same length; empty takes all.
struct PrivateDataMatch {
  std::vector<std::byte> value{};
  std::vector<std::byte> mask{};
  friend bool operator==(const PrivateDataMatch&, const PrivateDataMatch&) = default;
};

struct ListenParameters {
  std::uint64_t service_id{kAssignServiceId};
  std::uint64_t service_mask{};       ///< bits that must be equal; 0 is kExactServiceId
  std::optional<Guid> ca_guid{};      ///< only what comes to ports of this CA
  PrivateDataMatch match{};           ///< of two listeners, one that matches more comes first
  std::optional<unsigned> backlog{};  ///< connections that are not established; else Limits'
  /// What is above the backlog is not rejected (REJ 3) but left unanswered, so that the peer asks
  /// again, as it is with Linux.
  bool leaves_excess_unanswered{};
};

/// Where a connection manager listens, when the port of the connection does not say it: after a
/// redirection (IBTA vol 1 §12.6.7).
struct ManagerPlace {
  Path path{};
  Qpn qpn{kQp1};
  QKey qkey{kGsiQKey};
};

/// send_req. Counts and exponents that do not fit their fields are refused (R-CM-7).
struct RequestParameters {
  Path primary{};
  std::optional<Path> alternate{};
  std::optional<ManagerPlace> manager{};  ///< of the peer, if it is not at the primary path's end
  std::uint64_t service_id{};
  QpType qp_type{QpType::Rc};  ///< Rc, Uc, XrcInitiator
  Qpn qpn{};
  Psn starting_psn{};  ///< that the peer shall begin with
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t remote_cm_response_timeout{18};  ///< exponent
  std::uint8_t local_cm_response_timeout{18};   ///< exponent
  std::uint8_t retry_count{7};
  std::uint8_t rnr_retry_count{7};
  std::uint8_t max_cm_retries{15};
  bool flow_control{true};
  bool srq{};
  bool peer_to_peer{};  ///< a REQ of the peer for the same service id is met half-way (§12.10.4)
  Ece ece{};
  ByteSpan private_data{};
};

struct ReplyParameters {
  Qpn qpn{};
  Psn starting_psn{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t target_ack_delay{};
  std::uint8_t failover_accepted{};
  std::uint8_t rnr_retry_count{7};
  bool flow_control{true};
  bool srq{};
  Ece ece{};
  ByteSpan private_data{};
};

struct RejectParameters {
  wire::RejectReason reason{wire::RejectReason::ConsumerReject};
  ByteSpan additional_information{};
  ByteSpan private_data{};
};

struct SidrRequestParameters {
  Path path{};
  std::uint64_t service_id{};
  Duration timeout{Duration::seconds(1)};
  std::uint8_t max_cm_retries{15};
  ByteSpan private_data{};
};

struct SidrReplyParameters {
  wire::SidrStatus status{wire::SidrStatus::Success};
  Qpn qpn{};
  QKey qkey{};
  Ece ece{};
  ByteSpan additional_information{};
  ByteSpan private_data{};
};

struct AprParameters {
  wire::AprStatus status{wire::AprStatus::Success};
  ByteSpan additional_information{};
  ByteSpan private_data{};
};

/// When an MRA goes out.
enum class MraTime : std::uint8_t {
  Now,
  WhenAskedAgain,  ///< only if the peer repeats its message, which an answer may come before
};

/// What a user's QP tells about a connection.
enum class QpEvent : std::uint8_t {
  CommunicationEstablished,  ///< a packet came before the RTU
  PathMigrated,              ///< the alternate path is the one in use
};

}  // namespace weft::cm
