#pragma once

#include <cstdint>
#include <string>

#include "base/flags.h"
#include "base/identifiers.h"
#include "verbs/mtu.h"
#include "verbs/port_state.h"

namespace weft::core {

/// What a device can do beyond the verbs that all have (`enum ib_device_cap_flags` and its kernel
/// half).
enum class DeviceCapability : std::uint64_t {
  BadPKeyCounter = 1ULL << 1,
  BadQKeyCounter = 1ULL << 2,
  AutoPathMigration = 1ULL << 4,
  ChangePhysicalPort = 1ULL << 5,
  CurrentQpStateModify = 1ULL << 7,
  ShutdownPort = 1ULL << 8,
  PortActiveEvent = 1ULL << 10,
  SystemImageGuid = 1ULL << 11,
  RcRnrNakGeneration = 1ULL << 12,
  MemoryWindow = 1ULL << 17,
  Xrc = 1ULL << 20,
  MemoryManagementExtensions = 1ULL << 21,  ///< REG_MR, LOCAL_INV, SEND with invalidate
  MemoryWindowType2A = 1ULL << 23,
  MemoryWindowType2B = 1ULL << 24,
  OnDemandPaging = 1ULL << 31,
  SgGapsRegistration = 1ULL << 32,
  Integrity = 1ULL << 33,
  LocalDmaLkey = 1ULL << 34,  ///< DeviceAttributes::local_dma_lkey is valid
  /// READs into fast-registered regions need them: iWARP's rule, which rdma_rw follows.
  ReadNeedsRegistration = 1ULL << 35,
};
using DeviceCapabilities = Flags<DeviceCapability>;

/// What a driver promises of a device (`struct ib_device_attr`); counts, unless a unit is given.
struct DeviceAttributes {
  std::uint64_t firmware_version{};
  Guid system_image_guid{};
  Guid node_guid{};
  std::uint64_t max_mr_size{};     ///< bytes
  std::uint64_t page_size_mask{};  ///< bit n: pages of 2^n bytes
  std::uint32_t vendor_id{};
  std::uint32_t vendor_part_id{};
  std::uint32_t hardware_version{};
  DeviceCapabilities capabilities{};
  std::uint32_t local_dma_lkey{};
  std::uint32_t max_qp{};
  std::uint32_t max_qp_wr{};
  std::uint32_t max_send_sge{};
  std::uint32_t max_recv_sge{};
  std::uint32_t max_sge_read{};  ///< elements of an RDMA READ
  /// A READ into a list of more elements goes better by registration; 0: never (`max_sgl_rd`).
  std::uint32_t max_efficient_read_entries{};
  std::uint32_t max_cq{};
  std::uint32_t max_cqe{};
  std::uint32_t max_mr{};
  std::uint32_t max_mw{};
  std::uint32_t max_pd{};
  std::uint32_t max_ah{};
  std::uint32_t max_qp_rd_atomic{};
  std::uint32_t max_qp_init_rd_atomic{};
  std::uint32_t max_srq{};
  std::uint32_t max_srq_wr{};
  std::uint32_t max_srq_sge{};
  std::uint32_t max_wq{};
  std::uint32_t max_indirection_table_log2{};
  std::uint32_t max_fast_registration_entries{};  ///< of a page list
  std::uint32_t max_maps_per_fmr{};               ///< before it is to be unmapped; 0: not known
  std::uint32_t max_integrity_entries{};          ///< of each list of an integrity region
  std::uint32_t max_multicast_groups{};
  std::uint32_t max_multicast_qp_attach{};
  std::uint32_t max_pkeys{};
  std::uint8_t local_ca_ack_delay{};
};

enum class LinkLayer : std::uint8_t { Unspecified, Infiniband, Ethernet };

/// What a port can do, for the life of the device (`struct ib_port_immutable`).
enum class PortCapability : std::uint32_t {
  Mad = 1U << 0,
  Smi = 1U << 1,
  IbCm = 1U << 2,
  IwCm = 1U << 3,
  Sa = 1U << 4,
  Multicast = 1U << 5,
  AddressFamilyIb = 1U << 6,
  EthernetAddressHandles = 1U << 7,  ///< RoCE: an AH has a MAC
  OpaMad = 1U << 8,
  ProtocolIb = 1U << 20,
  ProtocolRoce = 1U << 21,
  ProtocolRoceUdp = 1U << 22,
  ProtocolIwarp = 1U << 23,
};
using PortCapabilities = Flags<PortCapability>;
inline constexpr PortCapabilities kInfinibandPort{
    PortCapabilities{PortCapability::Mad} | PortCapability::Smi | PortCapability::IbCm |
    PortCapability::Sa | PortCapability::Multicast | PortCapability::AddressFamilyIb |
    PortCapability::ProtocolIb};

struct PortImmutable {
  std::uint32_t pkey_table_length{};
  std::uint32_t gid_table_length{};
  PortCapabilities capabilities{};
  std::uint32_t max_mad_size{256};  ///< bytes
};

/// A port as query_port tells it (`struct ib_port_attr`), without its tables.
struct PortDescription {
  verbs::PortState state{verbs::PortState::Down};
  std::uint8_t physical_state{};  ///< PortInfo PortPhysicalState
  verbs::Mtu max_mtu{verbs::Mtu::Mtu4096};
  verbs::Mtu active_mtu{verbs::Mtu::Mtu4096};
  std::uint32_t gid_table_length{};
  bool has_ip_gids{};
  std::uint32_t capability_mask{};    ///< PortInfo CapabilityMask
  std::uint16_t capability_mask_2{};  ///< PortInfo CapabilityMask2
  std::uint32_t max_message_size{};   ///< bytes
  std::uint32_t bad_pkeys{};
  std::uint32_t bad_qkeys{};
  std::uint32_t pkey_table_length{};
  Lid lid{};
  Lid sm_lid{};
  std::uint8_t lmc{};
  std::uint8_t max_vl{};
  ServiceLevel sm_sl{};
  std::uint8_t subnet_timeout{};
  std::uint8_t init_type_reply{};
  std::uint8_t active_width{};  ///< PortInfo LinkWidthActive
  std::uint16_t active_speed{};
  std::uint64_t subnet_prefix{};  ///< of the first GID
};

/// Changes of a device: what is there counts (`ib_modify_device`).
enum class DeviceChange : std::uint32_t { SystemImageGuid = 1U << 0, NodeDescription = 1U << 1 };
struct DeviceModification {
  Flags<DeviceChange> mask{};
  Guid system_image_guid{};
  std::string node_description{};  ///< at most 64 bytes
};

/// Changes of a port (`ib_modify_port`).
enum class PortChange : std::uint32_t {
  Shutdown = 1U << 0,
  InitType = 1U << 2,
  ResetQKeyCounter = 1U << 3,
  OpaMask = 1U << 4,  ///< the capability bits are OPA's own
};
struct PortModification {
  Flags<PortChange> mask{};
  std::uint32_t set_capabilities{};  ///< bits of PortInfo CapabilityMask
  std::uint32_t clear_capabilities{};
  std::uint8_t init_type{};
};

}  // namespace weft::core
