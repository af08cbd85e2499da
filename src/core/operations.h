#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/ah.h"
#include "core/cq.h"
#include "core/device_attributes.h"
#include "core/dma.h"
#include "core/fmr.h"
#include "core/mr.h"
#include "core/net_device.h"
#include "core/pd.h"
#include "core/qp.h"
#include "core/srq.h"
#include "core/wq.h"
#include "core/xrcd.h"

namespace weft::core {

/// What a driver does for a device (`struct ib_device_ops`). A null pointer: the driver does not
/// offer it, and callers get NotSupported. The core has checked arguments against each other and
/// against the device's limits; the driver makes or ends its own part (Resource::driver_data) and
/// sets keys, numbers and actual sizes. No locks of the core are held.
struct DeviceOperations {
  std::uint32_t driver_id{};  ///< whose it is (`enum rdma_driver_id`); never kUnknownDriver

  // --- the device
  Result<DeviceAttributes> (*query_device)(Device&){};
  Result<PortDescription> (*query_port)(Device&, PortNumber){};
  Result<PortImmutable> (*get_port_immutable)(Device&, PortNumber){};
  LinkLayer (*get_link_layer)(Device&, PortNumber){};
  Result<Gid> (*query_gid)(Device&, PortNumber, std::uint32_t index){};
  Result<PKey> (*query_pkey)(Device&, PortNumber, std::uint32_t index){};
  Result<void> (*modify_device)(Device&, const DeviceModification&){};
  Result<void> (*modify_port)(Device&, PortNumber, const PortModification&){};
  /// RoCE: the core's GID table changed; the driver's own follows. An entry is removed when the
  /// last reference to it goes, in the thread that puts it: that call must not sleep.
  Result<void> (*add_gid)(const GidEntry&){};
  void (*remove_gid)(const GidEntry&){};
  NetDeviceReference (*get_net_device)(Device&, PortNumber){};
  /// Called by register_device when everybody can find the device, before clients are told; its
  /// failure undoes the registration.
  Result<void> (*enable_driver)(Device&){};
  /// The device is unregistered and nobody has it: the driver ends its part. A driver with it may
  /// be unregistered by others than itself.
  void (*deallocate_driver)(Device&){};

  // --- PD, AH
  Result<void> (*allocate_pd)(Pd&, UserData*){};
  Result<void> (*deallocate_pd)(Pd&, UserData*){};
  Result<void> (*create_ah)(Ah&, const AhAttributes&, AhFlags, UserData*){};
  Result<void> (*modify_ah)(Ah&, const AhAttributes&){};
  Result<AhAttributes> (*query_ah)(Ah&){};
  Result<void> (*destroy_ah)(Ah&, AhFlags){};
  /// The driver's own look at attributes (`rvt_check_ah`).
  Result<void> (*check_ah)(Device&, const AhAttributes&){};
  /// RoCE: the destination's MAC.
  Result<NetDevice::MacAddress> (*resolve_mac)(Device&, const AhAttributes&){};

  // --- CQ
  Result<void> (*create_cq)(Cq&, std::uint32_t entries, UserData*){};
  Result<void> (*destroy_cq)(Cq&){};
  unsigned (*poll_cq)(Cq&, std::span<Wc>){};
  Result<bool> (*request_notify)(Cq&, NotifyFlags){};
  Result<void> (*resize_cq)(Cq&, std::uint32_t entries){};
  Result<void> (*modify_cq)(Cq&, std::uint16_t count, Duration period){};

  // --- QP, SRQ, XRC
  Result<void> (*create_qp)(Qp&, const QpInit&){};
  Result<void> (*modify_qp)(Qp&, const QpModify&){};
  Result<verbs::QpAttributes> (*query_qp)(Qp&, verbs::QpAttributeMask){};
  Result<void> (*destroy_qp)(Qp&){};
  Result<void> (*post_send)(Qp&, const SendWr& first, const SendWr** bad){};
  Result<void> (*post_recv)(Qp&, const RecvWr& first, const RecvWr** bad){};
  Result<void> (*drain_sq)(Qp&){};
  Result<void> (*drain_rq)(Qp&){};
  Result<void> (*attach_multicast)(Qp&, const Gid&, Lid){};
  Result<void> (*detach_multicast)(Qp&, const Gid&, Lid){};
  Result<void> (*create_srq)(Srq&, SrqAttributes& actual, UserData*){};
  Result<void> (*modify_srq)(Srq&, std::optional<std::uint32_t> max_wr,
                             std::optional<std::uint32_t> limit){};
  Result<SrqAttributes> (*query_srq)(Srq&){};
  Result<void> (*destroy_srq)(Srq&){};
  Result<void> (*post_srq_recv)(Srq&, const RecvWr& first, const RecvWr** bad){};
  Result<void> (*allocate_xrcd)(Xrcd&){};
  Result<void> (*deallocate_xrcd)(Xrcd&){};

  // --- memory
  /// Null, both: the device reaches all memory of the process.
  Result<void> (*map_list)(Device&, std::span<const ScatterEntry>, DmaDirection){};
  void (*unmap_list)(Device&, std::span<const ScatterEntry>, DmaDirection){};
  Result<void> (*get_dma_mr)(Mr&, verbs::AccessFlags){};
  Result<void> (*register_user_mr)(Mr&, const UserMemoryRange&, verbs::AccessFlags, UserData*){};
  Result<void> (*deregister_mr)(Mr&, UserData*){};
  Result<void> (*allocate_mr)(Mr&, std::uint32_t max_entries){};
  Result<void> (*allocate_mr_integrity)(Mr&, std::uint32_t max_data, std::uint32_t max_meta){};
  Result<std::uint32_t> (*map_mr_sg)(Mr&, std::span<const ScatterEntry>, std::uint32_t* offset){};
  Result<void> (*map_mr_sg_pi)(Mr&, const MappedList& data, const MappedList& meta){};
  Result<SignatureStatus> (*check_mr_status)(Mr&){};
  /// Maps a region of the FMR anew, under new keys.
  Result<void> (*map_phys_fmr)(Fmr&, std::span<const std::uint64_t> pages, std::uint64_t iova){};
  Result<void> (*unmap_fmrs)(std::span<Fmr* const>){};
  Result<void> (*allocate_fmr)(Fmr&){};
  Result<void> (*deallocate_fmr)(Fmr&){};
  Result<void> (*allocate_mw)(Mw&){};
  Result<void> (*deallocate_mw)(Mw&){};

  // --- work queues
  Result<void> (*create_wq)(Wq&, WqInit& actual){};
  Result<void> (*destroy_wq)(Wq&){};
  Result<void> (*modify_wq)(Wq&, const WqModify&){};
  Result<void> (*post_wq_recv)(Wq&, const RecvWr& first, const RecvWr** bad){};
  Result<void> (*create_indirection_table)(IndirectionTable&){};
  Result<void> (*destroy_indirection_table)(IndirectionTable&){};
};

/// Names of operations without which a device cannot be registered, and of those without which the
/// stack's own users have no use of it, that this table lacks.
struct MissingOperations {
  std::vector<std::string_view> mandatory;
  std::vector<std::string_view> kernel_verbs;
};
[[nodiscard]] MissingOperations missing_operations(const DeviceOperations& operations);

}  // namespace weft::core
