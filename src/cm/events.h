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

/// What the manager tells its users (R-CM-6, R-CM-12).
namespace weft::cm {

enum class CmEventType : std::uint8_t {
  ReqReceived,  ///< of a new id, made for it: its handler is the listener's (R-CM-2)
  ReqTimeout,
  RepReceived,
  RepTimeout,
  RtuReceived,
  UserEstablished,  ///< after `notify`
  DreqReceived,
  DreqTimeout,
  DrepReceived,
  TimewaitExit,
  MraReceived,
  RejReceived,
  LapReceived,
  LapTimeout,
  AprReceived,
  SidrReqReceived,  ///< of a new id
  SidrReqTimeout,
  SidrRepReceived,
};

[[nodiscard]] std::string_view name_of(CmEventType type);

/// ReqReceived. What the peer offers is seen from here: its initiator depth is what this side needs
/// responder resources for (R-CM-9).
struct ReqReceived {
  CmId listener{};  ///< none when two peers met half-way
  PortKey port{};
  Path primary{};
  std::optional<Path> alternate{};
  std::uint64_t service_id{};
  Guid remote_ca{};
  QKey remote_qkey{};
  Qpn remote_qpn{};
  QpType qp_type{};  ///< that this side needs: XrcTarget for the peer's initiator
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

struct RepReceived {
  Guid remote_ca{};
  QKey remote_qkey{};
  Qpn remote_qpn{};
  Psn starting_psn{};
  std::uint8_t responder_resources{};  ///< seen from here
  std::uint8_t initiator_depth{};
  std::uint8_t target_ack_delay{};
  std::uint8_t failover_accepted{};
  std::uint8_t rnr_retry_count{};
  bool flow_control{};
  bool srq{};
  Ece ece{};
};

struct RejReceived {
  wire::RejectReason reason{};
  wire::CmSubject subject{};
  std::vector<std::byte> additional_information{};
};

struct MraReceived {
  wire::CmSubject subject{};
  std::uint8_t service_timeout{};  ///< exponent
};

struct LapReceived {
  Path alternate{};
};

struct AprReceived {
  wire::AprStatus status{};
  std::vector<std::byte> additional_information{};
};

struct SidrReqReceived {
  CmId listener{};
  PortKey port{};
  std::uint64_t service_id{};
  PKey pkey{};
  Lid slid{};                 ///< of who asks
  std::optional<Gid> sgid{};  ///< when it came with a GRH
};

struct SidrRepReceived {
  wire::SidrStatus status{};
  Qpn qpn{};
  QKey qkey{};
  Ece ece{};
  std::vector<std::byte> additional_information{};
};

struct CmEvent {
  CmEventType type{};
  std::uint64_t context{};  ///< the id's
  /// As it came, whole: of the message's length, with the zeros behind what the peer gave.
  std::vector<std::byte> private_data{};
  /// Nothing for the types that have no structure above.
  std::variant<std::monostate, ReqReceived, RepReceived, RejReceived, MraReceived, LapReceived,
               AprReceived, SidrReqReceived, SidrRepReceived>
      details{};
};

/// What a handler says of the id that it was told about.
enum class Handled : std::uint8_t {
  Keep,
  Destroy,            ///< as `destroy` would (R-CM-12)
  DestroyNoResources  ///< a REQ is then not answered at all, so that the peer asks again
};

/// Told of events of the ids that it was given for: of one id in the order in which they happened,
/// never from inside a call into the manager. It may call the manager, and destroy any id.
class CmObserver {
 public:
  CmObserver() = default;
  virtual ~CmObserver() = default;
  CmObserver(const CmObserver&) = delete;
  CmObserver& operator=(const CmObserver&) = delete;

  [[nodiscard]] virtual Handled handle(CmId id, const CmEvent& event, Instant now) = 0;
};

}  // namespace weft::cm
