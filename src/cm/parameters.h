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

/// Parameters of the manager's calls. Private data and additional information are only read during
/// the call, and zero-padded to the length of their field.
namespace weft::cm {

/// Capacity of each message's private data, in bytes (IBTA vol 1 §12.6).
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

/// Makes `listen` allocate an unused service ID (R-CML-1). All service IDs that start with this
/// octet are reserved for allocation by the manager (R-CML-2).
inline constexpr std::uint64_t kAssignServiceId = 0x0200'0000'0000'0000;
/// as a mask: all bits must match
inline constexpr std::uint64_t kExactServiceId = ~std::uint64_t{0};

/// Restricts a listener to REQs and SIDR_REQs whose private data starts with a pattern: each bit
/// set in `mask` must equal that of `value`. Both have the same length; an empty pattern matches
/// everything.
struct PrivateDataMatch {
  std::vector<std::byte> value{};
  std::vector<std::byte> mask{};
  friend bool operator==(const PrivateDataMatch&, const PrivateDataMatch&) = default;
};

/// Parameters of `listen`.
struct ListenParameters {
  std::uint64_t service_id{kAssignServiceId};
  std::uint64_t service_mask{};       ///< bits that must match; 0 means kExactServiceId
  std::optional<Guid> ca_guid{};      ///< match only requests that arrive at a port of this CA
  PrivateDataMatch match{};           ///< the listener with the longer match takes precedence
  std::optional<QpType> qp_type{};    ///< match only requests for QPs of this type; Ud: SIDR_REQs
  std::optional<unsigned> backlog{};  ///< maximum of unestablished connections; default from Limits
  /// Leave requests above the backlog unanswered instead of rejecting them (REJ 3), so that the
  /// peer retries, as on Linux.
  bool drops_excess_requests{};
};

/// Address of a peer's connection manager that is not at the connection's own port, as given by a
/// redirection (IBTA vol 1 §12.6.7).
struct ManagerAddress {
  Path path{};
  Qpn qpn{kQp1};
  QKey qkey{kGsiQKey};
};

/// Parameters of `send_req`. Counts and exponents that do not fit their fields are refused
/// (R-CM-7).
struct RequestParameters {
  Path primary{};
  std::optional<Path> alternate{};
  /// the peer's CM, if it is not at the end of the primary path
  std::optional<ManagerAddress> manager{};
  std::uint64_t service_id{};
  QpType qp_type{QpType::Rc};  ///< Rc, Uc, XrcInitiator
  Qpn qpn{};
  Psn starting_psn{};  ///< that the peer must start with
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t remote_cm_response_timeout{18};  ///< exponent
  std::uint8_t local_cm_response_timeout{18};   ///< exponent
  std::uint8_t retry_count{7};
  std::uint8_t rnr_retry_count{7};
  std::uint8_t max_cm_retries{15};
  bool flow_control{true};
  bool srq{};
  bool peer_to_peer{};  ///< match a REQ from the peer for the same service ID (§12.10.4)
  Ece ece{};
  ByteSpan private_data{};
};

/// Parameters of `send_rep`.
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

/// Parameters of `send_rej`.
struct RejectParameters {
  wire::RejectReason reason{wire::RejectReason::ConsumerReject};
  ByteSpan additional_information{};
  ByteSpan private_data{};
};

/// Parameters of `send_sidr_req`.
struct SidrRequestParameters {
  Path path{};
  std::uint64_t service_id{};
  Duration timeout{Duration::seconds(1)};
  std::uint8_t max_cm_retries{15};
  ByteSpan private_data{};
};

/// Parameters of `send_sidr_rep`.
struct SidrReplyParameters {
  wire::SidrStatus status{wire::SidrStatus::Success};
  Qpn qpn{};
  QKey qkey{};
  Ece ece{};
  ByteSpan additional_information{};
  ByteSpan private_data{};
};

/// Parameters of `send_apr`.
struct AprParameters {
  wire::AprStatus status{wire::AprStatus::Success};
  ByteSpan additional_information{};
  ByteSpan private_data{};
};

/// When `send_mra` transmits the MRA.
enum class MraTime : std::uint8_t {
  Now,
  OnRetry,  ///< only if the peer resends its message before this side answers
};

}  // namespace weft::cm
