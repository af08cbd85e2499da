#pragma once

// What a host's kernel shows to its programs, by RDMA netlink and in /sys: devices with their
// ports, and the verbs objects that programs hold. Plain values, as of one moment: the daemon takes
// them from the fabric's tables and asks the programs for theirs, within a bound of time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "verbs/port_policy.h"

namespace weft::host_view {

/// Of Weft's HCAs, as verbs, MADs and /sys say it alike.
inline constexpr std::string_view kFirmwareVersion = "1.0.0";

struct PortView {
  std::uint32_t number{};  ///< from 1
  std::uint32_t capability_mask{};
  std::uint16_t capability_mask2{};
  std::uint64_t subnet_prefix{};
  Lid lid{};
  Lid sm_lid{};
  ServiceLevel sm_sl{};
  std::uint8_t lmc{};
  std::uint8_t state{};           ///< PortInfo:PortState, as IBV_PORT_ACTIVE
  std::uint8_t physical_state{};  ///< PortInfo:PortPhysicalState
  std::uint8_t active_width{};    ///< PortInfo:LinkWidthActive
  std::uint16_t
      active_speed{};  ///< enum ib_port_speed: PortInfo:LinkSpeedActive, extended speeds from 16 on
  std::string link_layer{};   ///< "InfiniBand"
  std::vector<Gid> gids{};    ///< the table, with empty entries
  std::vector<PKey> pkeys{};  ///< the table, with empty entries
  /// The network interface on top of the port, if there is one.
  std::uint32_t interface_index{};
  std::string interface_name{};
  /// By the names that /sys gives them, in the order in which they are shown.
  using Counters = std::vector<std::pair<std::string, std::uint64_t>>;
  Counters counters{};           ///< IBTA's (PortCounters, PortCountersExtended)
  Counters hardware_counters{};  ///< the device's own, as `rdma stat` shows them
  bool operator==(const PortView&) const = default;
};

/// A QP (restrack's "qp").
struct QpView {
  std::uint32_t port{};  ///< 0: none yet
  Qpn number{};
  std::optional<Qpn> remote{};  ///< of RC and UC
  std::optional<std::uint32_t> receive_psn{};
  std::uint32_t send_psn{};
  std::optional<std::uint8_t> migration_state{};
  std::uint8_t type{};   ///< IBV_QPT_*
  std::uint8_t state{};  ///< IBV_QPS_*
  std::uint32_t pd{};
  bool operator==(const QpView&) const = default;
};

struct CqView {
  std::uint32_t number{};
  std::uint32_t entries{};
  std::uint64_t users{};  ///< QPs and SRQs that complete into it
  bool operator==(const CqView&) const = default;
};

struct MrView {
  std::uint32_t number{};
  std::uint32_t rkey{};
  std::uint32_t lkey{};
  std::uint64_t length{};  ///< bytes
  std::uint32_t pd{};
  bool operator==(const MrView&) const = default;
};

struct PdView {
  std::uint32_t number{};
  std::uint64_t users{};
  bool operator==(const PdView&) const = default;
};

struct SrqView {
  std::uint32_t number{};
  std::uint8_t type{};  ///< IBV_SRQT_*
  std::uint32_t pd{};
  std::optional<std::uint32_t> cq{};
  bool operator==(const SrqView&) const = default;
};

/// An rdma_cm_id.
struct CmIdView {
  std::uint32_t number{};
  std::uint32_t port{};
  Qpn qp{};                    ///< 0: none
  std::uint8_t qp_type{};      ///< IBV_QPT_*
  std::uint32_t port_space{};  ///< RDMA_PS_*
  std::uint8_t state{};        ///< the kernel's enum rdma_cm_state
  /// struct sockaddr, as many octets as its family has; empty if not known.
  std::vector<std::byte> source{};
  std::vector<std::byte> destination{};
  bool operator==(const CmIdView&) const = default;
};

/// What one program holds on one device, in one open context if it has one.
struct ProgramView {
  std::uint32_t pid{};      ///< in the caller's PID namespace
  std::uint32_t context{};  ///< 0: none is open
  std::vector<QpView> qps{};
  std::vector<CqView> cqs{};
  std::vector<MrView> mrs{};
  std::vector<PdView> pds{};
  std::vector<SrqView> srqs{};
  std::vector<CmIdView> cm_ids{};
  bool operator==(const ProgramView&) const = default;
};

/// A virtual function, as the driver of its physical one shows it.
struct FunctionView {
  Guid node_guid{};
  Guid port_guid{};
  verbs::PortPolicy policy{verbs::PortPolicy::Follow};
  bool operator==(const FunctionView&) const = default;
};

/// What a device that can have virtual functions says of them.
struct SriovView {
  std::uint32_t total{};  ///< how many it can have
  std::vector<FunctionView> functions{};
  bool operator==(const SriovView&) const = default;
};

struct DeviceView {
  std::uint32_t index{};
  std::string name{};
  std::uint64_t capability_flags{};  ///< IBV_DEVICE_*, extended ones too
  std::string firmware_version{};
  std::string hardware_revision{};
  std::string board_id{};
  std::string type{};         ///< hca_type
  std::string description{};  ///< NodeDescription
  Guid node_guid{};
  Guid system_image_guid{};
  std::string protocol{};  ///< "ib", "opa", "roce"
  std::vector<PortView> ports{};
  std::vector<ProgramView> programs{};
  std::optional<SriovView> sriov{};  ///< none: it is a virtual function itself
  bool operator==(const DeviceView&) const = default;
};

/// A character device by which programs reach the host's RDMA devices.
struct CharacterDeviceView {
  std::string type{};  ///< "uverbs", "umad", "issm", "rdma_cm"
  std::string name{};  ///< of the file below /dev/infiniband
  std::uint64_t abi{};
  std::uint64_t number{};  ///< dev_t
  std::optional<std::uint32_t> device{};
  std::optional<std::uint32_t> port{};
  bool operator==(const CharacterDeviceView&) const = default;
};

struct HostView {
  std::vector<DeviceView> devices{};
  std::vector<CharacterDeviceView> character_devices{};
  bool operator==(const HostView&) const = default;
};

}  // namespace weft::host_view
