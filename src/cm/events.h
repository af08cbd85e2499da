#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/serial.h"
#include "base/time.h"
#include "cm/types.h"
#include "wire/cm/cm_codes.h"

/// Events that the manager delivers to its users (R-CM-6, R-CM-12).
namespace weft::cm {

/// Kind of a CmEvent. A timeout means that all retries of the named message went unanswered.
enum class CmEventType : std::uint8_t {
  /// on a new id, created for this request and handled by the listener's observer (R-CM-2)
  ReqReceived,
  ReqTimeout,
  RepReceived,
  RepTimeout,
  RtuReceived,
  UserEstablished,  ///< after `notify(CommunicationEstablished)`
  DreqReceived,
  DreqTimeout,
  DrepReceived,
  TimewaitExit,
  MraReceived,
  RejReceived,
  LapReceived,
  LapTimeout,
  AprReceived,
  SidrReqReceived,  ///< on a new id
  SidrReqTimeout,
  SidrRepReceived,
};

[[nodiscard]] std::string_view name_of(CmEventType type);

/// Details of ReqReceived, from this side's view: the peer's initiator depth is the number of
/// responder resources that this side needs (R-CM-9).
struct ReqReceived {
  CmId listener{};  ///< none if two peer-to-peer REQs were matched
  PortKey port{};
  Path primary{};
  std::optional<Path> alternate{};
  std::uint64_t service_id{};
  Guid remote_ca{};
  QKey remote_qkey{};
  Qpn remote_qpn{};
  /// type of the QP that this side needs: XrcTarget if the peer's is an initiator
  QpType qp_type{};
  Psn starting_psn{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t local_cm_response_timeout{};   ///< exponent
  std::uint8_t remote_cm_response_timeout{};  ///< exponent
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry_count{};
  bool flow_control{};
  bool srq{};
  Ece ece{};
};

/// Details of RepReceived.
struct RepReceived {
  Guid remote_ca{};
  QKey remote_qkey{};
  Qpn remote_qpn{};
  Psn starting_psn{};
  std::uint8_t responder_resources{};  ///< from this side's view
  std::uint8_t initiator_depth{};
  std::uint8_t target_ack_delay{};
  std::uint8_t failover_accepted{};
  std::uint8_t rnr_retry_count{};
  bool flow_control{};
  bool srq{};
  Ece ece{};
};

/// Details of RejReceived.
struct RejReceived {
  wire::RejectReason reason{};
  wire::CmSubject subject{};
  std::vector<std::byte> additional_information{};
};

/// Details of MraReceived.
struct MraReceived {
  wire::CmSubject subject{};
  std::uint8_t service_timeout{};  ///< exponent
};

/// Details of LapReceived.
struct LapReceived {
  Path alternate{};
};

/// Details of AprReceived.
struct AprReceived {
  wire::AprStatus status{};
  std::vector<std::byte> additional_information{};
};

/// Details of SidrReqReceived.
struct SidrReqReceived {
  CmId listener{};
  PortKey port{};
  std::uint64_t service_id{};
  PKey pkey{};
  Lid slid{};                 ///< of the requester
  std::optional<Gid> sgid{};  ///< set if the request carried a GRH
};

/// Details of SidrRepReceived.
struct SidrRepReceived {
  wire::SidrStatus status{};
  Qpn qpn{};
  QKey qkey{};
  Ece ece{};
  std::vector<std::byte> additional_information{};
};

/// One event of one id.
struct CmEvent {
  CmEventType type{};
  std::uint64_t context{};  ///< the context given for the id
  /// The message's whole private data field, including the zero padding behind what the peer
  /// supplied.
  std::vector<std::byte> private_data{};
  /// monostate for event types without details.
  std::variant<std::monostate, ReqReceived, RepReceived, RejReceived, MraReceived, LapReceived,
               AprReceived, SidrReqReceived, SidrRepReceived>
      details{};
};

/// A handler's decision about the id of the event.
enum class Handled : std::uint8_t {
  Keep,
  Destroy,            ///< as if `destroy` were called (R-CM-12)
  DestroyNoResources  ///< a REQ then stays unanswered, so that the peer retries
};

/// Receives the events of the ids it was registered for: in order for each id, never from inside a
/// call into the manager. A handler may call the manager and destroy any id.
class CmObserver {
 public:
  CmObserver() = default;
  virtual ~CmObserver() = default;
  CmObserver(const CmObserver&) = delete;
  CmObserver& operator=(const CmObserver&) = delete;

  [[nodiscard]] virtual Handled handle(CmId id, const CmEvent& event, Instant now) = 0;
};

}  // namespace weft::cm
