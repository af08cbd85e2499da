#include "kernel/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "kernel/gid_face.h"

namespace weft::kernel {
namespace {

/// Of an attribute that may not be set, and then is any number; ib_modify_qp() has refused those
/// that are and do not fit.
[[nodiscard]] TimeoutExponent exponent_of(std::uint8_t number) {
  return TimeoutExponent{std::min(number, TimeoutExponent::kMax)};
}

/// Device capabilities whose bits differ.
struct CapabilityRow {
  core::DeviceCapability ours;
  std::uint64_t theirs;
};
constexpr auto kCapabilities = std::to_array<CapabilityRow>({
    {core::DeviceCapability::BadPKeyCounter,             IB_DEVICE_BAD_PKEY_CNTR     },
    {core::DeviceCapability::BadQKeyCounter,             IB_DEVICE_BAD_QKEY_CNTR     },
    {core::DeviceCapability::AutoPathMigration,          IB_DEVICE_AUTO_PATH_MIG     },
    {core::DeviceCapability::ChangePhysicalPort,         IB_DEVICE_CHANGE_PHY_PORT   },
    {core::DeviceCapability::CurrentQpStateModify,       IB_DEVICE_CURR_QP_STATE_MOD },
    {core::DeviceCapability::ShutdownPort,               IB_DEVICE_SHUTDOWN_PORT     },
    {core::DeviceCapability::PortActiveEvent,            IB_DEVICE_PORT_ACTIVE_EVENT },
    {core::DeviceCapability::SystemImageGuid,            IB_DEVICE_SYS_IMAGE_GUID    },
    {core::DeviceCapability::RcRnrNakGeneration,         IB_DEVICE_RC_RNR_NAK_GEN    },
    {core::DeviceCapability::MemoryWindow,               IB_DEVICE_MEM_WINDOW        },
    {core::DeviceCapability::Xrc,                        IB_DEVICE_XRC               },
    {core::DeviceCapability::MemoryManagementExtensions, IB_DEVICE_MEM_MGT_EXTENSIONS},
    {core::DeviceCapability::MemoryWindowType2A,         IB_DEVICE_MEM_WINDOW_TYPE_2A},
    {core::DeviceCapability::MemoryWindowType2B,         IB_DEVICE_MEM_WINDOW_TYPE_2B},
    {core::DeviceCapability::OnDemandPaging,             IB_DEVICE_ON_DEMAND_PAGING  },
    {core::DeviceCapability::SgGapsRegistration,         IB_DEVICE_SG_GAPS_REG       },
    {core::DeviceCapability::Integrity,                  IB_DEVICE_INTEGRITY_HANDOVER},
    {core::DeviceCapability::LocalDmaLkey,               IB_DEVICE_LOCAL_DMA_LKEY    },
});

[[nodiscard]] int count(std::uint32_t value) {
  return static_cast<int>(std::min<std::uint32_t>(value, 0x7FFF'FFFF));
}

template <class Theirs, class Ours>
[[nodiscard]] Theirs same_number(Ours value) {
  return static_cast<Theirs>(value);
}

[[nodiscard]] std::uint64_t big_endian(std::uint64_t value) {
  return std::endian::native == std::endian::big ? value : std::byteswap(value);
}

}  // namespace

Gid gid_of(const ib_gid& gid) {
  return Gid{std::bit_cast<std::array<std::byte, Gid::kSize>>(gid.raw)};
}

ib_gid to_c(const Gid& gid) {
  ib_gid made{};
  std::ranges::transform(gid.octets(), made.raw,
                         [](std::byte octet) { return std::to_integer<std::uint8_t>(octet); });
  return made;
}

core::AhAttributes ah_attributes_of(const rdma_ah_attr& attributes) {
  core::AhAttributes made;
  made.address = {
      .dlid = Lid{attributes.type == RDMA_AH_ATTR_TYPE_ROCE ? 0U : attributes.ib.dlid},
      .sl = ServiceLevel{attributes.sl},
      .source_path_bits =
          attributes.type == RDMA_AH_ATTR_TYPE_ROCE ? std::uint8_t{0}
        : attributes.ib.src_path_bits,
      .static_rate = attributes.static_rate,
      .port = PortNumber{attributes.port_num},
      .is_global = (attributes.ah_flags & IB_AH_GRH) != 0,
      .grh = {.dgid = gid_of(attributes.grh.dgid),
                  .flow_label = attributes.grh.flow_label,
                  .sgid_index = attributes.grh.sgid_index,
                  .hop_limit = attributes.grh.hop_limit,
                  .traffic_class = attributes.grh.traffic_class}
  };
  if (made.address.is_global && attributes.grh.sgid_attr != nullptr) {
    made.sgid = reference_of(*attributes.grh.sgid_attr);
    made.address.grh.sgid_index = static_cast<std::uint8_t>(attributes.grh.sgid_attr->index);
  }
  if (attributes.type == RDMA_AH_ATTR_TYPE_ROCE) {
    made.destination_mac = std::bit_cast<core::NetDevice::MacAddress>(attributes.roce.dmac);
  }
  return made;
}

rdma_ah_attr to_c(const core::AhAttributes& attributes) {
  rdma_ah_attr made{};
  const verbs::AddressVector& address = attributes.address;
  made.type = RDMA_AH_ATTR_TYPE_IB;
  made.ib.dlid = static_cast<std::uint16_t>(address.dlid.value());
  made.ib.src_path_bits = address.source_path_bits;
  made.sl = address.sl.value();
  made.static_rate = address.static_rate;
  made.port_num = address.port.value();
  made.ah_flags = address.is_global ? IB_AH_GRH : 0;
  made.grh.dgid = to_c(address.grh.dgid);
  made.grh.flow_label = address.grh.flow_label;
  made.grh.sgid_index = address.grh.sgid_index;
  made.grh.hop_limit = address.grh.hop_limit;
  made.grh.traffic_class = address.grh.traffic_class;
  return made;
}

verbs::QpCapabilities capabilities_of(const ib_qp_cap& capabilities) {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_recv_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_recv_sge,
          .max_inline_data = capabilities.max_inline_data};
}

void set_capabilities(ib_qp_cap& into, const verbs::QpCapabilities& capabilities) {
  into.max_send_wr = capabilities.max_send_wr;
  into.max_recv_wr = capabilities.max_recv_wr;
  into.max_send_sge = capabilities.max_send_sge;
  into.max_recv_sge = capabilities.max_recv_sge;
  into.max_inline_data = capabilities.max_inline_data;
}

verbs::QpAttributes attributes_of(const ib_qp_attr& attributes) {
  verbs::QpAttributes made;
  made.state = same_number<verbs::QpState>(attributes.qp_state);
  made.current_state = same_number<verbs::QpState>(attributes.cur_qp_state);
  made.path_mtu = same_number<verbs::Mtu>(attributes.path_mtu);
  made.migration = same_number<verbs::MigrationState>(attributes.path_mig_state);
  made.qkey = QKey{attributes.qkey};
  made.rq_psn = Psn{attributes.rq_psn};
  made.sq_psn = Psn{attributes.sq_psn};
  made.dest_qpn = Qpn{attributes.dest_qp_num};
  made.access =
      verbs::AccessFlags::from_bits(static_cast<std::uint32_t>(attributes.qp_access_flags));
  made.capabilities = capabilities_of(attributes.cap);
  made.address = ah_attributes_of(attributes.ah_attr).address;
  made.alternate_address = ah_attributes_of(attributes.alt_ah_attr).address;
  made.pkey_index = attributes.pkey_index;
  made.alternate_pkey_index = attributes.alt_pkey_index;
  made.enable_sqd_async_notify = attributes.en_sqd_async_notify != 0;
  made.max_rd_atomic = attributes.max_rd_atomic;
  made.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  made.min_rnr_timer = attributes.min_rnr_timer;
  made.port = PortNumber{attributes.port_num};
  made.timeout = exponent_of(attributes.timeout);
  made.retry_count = attributes.retry_cnt;
  made.rnr_retry = attributes.rnr_retry;
  made.alternate_port = PortNumber{attributes.alt_port_num};
  made.alternate_timeout = exponent_of(attributes.alt_timeout);
  return made;
}

ib_qp_attr to_c(const verbs::QpAttributes& attributes) {
  ib_qp_attr made{};
  made.qp_state = same_number<ib_qp_state>(attributes.state);
  made.cur_qp_state = same_number<ib_qp_state>(attributes.current_state);
  made.path_mtu = same_number<ib_mtu>(attributes.path_mtu);
  made.path_mig_state = same_number<ib_mig_state>(attributes.migration);
  made.qkey = attributes.qkey.value();
  made.rq_psn = attributes.rq_psn.value();
  made.sq_psn = attributes.sq_psn.value();
  made.dest_qp_num = attributes.dest_qpn.value();
  made.qp_access_flags = static_cast<int>(attributes.access.bits());
  set_capabilities(made.cap, attributes.capabilities);
  made.ah_attr = to_c(core::AhAttributes{.address = attributes.address});
  made.alt_ah_attr = to_c(core::AhAttributes{.address = attributes.alternate_address});
  made.pkey_index = attributes.pkey_index;
  made.alt_pkey_index = attributes.alternate_pkey_index;
  made.en_sqd_async_notify = attributes.enable_sqd_async_notify ? 1 : 0;
  made.sq_draining = attributes.sq_draining ? 1 : 0;
  made.max_rd_atomic = attributes.max_rd_atomic;
  made.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  made.min_rnr_timer = attributes.min_rnr_timer;
  made.port_num = attributes.port.value();
  made.timeout = attributes.timeout.value();
  made.retry_cnt = attributes.retry_count;
  made.rnr_retry = attributes.rnr_retry;
  made.alt_port_num = attributes.alternate_port.value();
  made.alt_timeout = attributes.alternate_timeout.value();
  return made;
}

ib_device_attr to_c(const core::DeviceAttributes& attributes) {
  ib_device_attr made{};
  made.fw_ver = attributes.firmware_version;
  made.sys_image_guid = big_endian(attributes.system_image_guid.value());
  made.max_mr_size = attributes.max_mr_size;
  made.page_size_cap = attributes.page_size_mask;
  made.vendor_id = attributes.vendor_id;
  made.vendor_part_id = attributes.vendor_part_id;
  made.hw_ver = attributes.hardware_version;
  for (const CapabilityRow& row : kCapabilities) {
    made.device_cap_flags |= attributes.capabilities.has(row.ours) ? row.theirs : 0;
  }
  made.max_qp = count(attributes.max_qp);
  made.max_qp_wr = count(attributes.max_qp_wr);
  made.max_send_sge = count(attributes.max_send_sge);
  made.max_recv_sge = count(attributes.max_recv_sge);
  made.max_sge_rd = count(attributes.max_sge_read);
  made.max_sgl_rd = attributes.max_efficient_read_entries;
  made.max_cq = count(attributes.max_cq);
  made.max_cqe = count(attributes.max_cqe);
  made.max_mr = count(attributes.max_mr);
  made.max_mw = count(attributes.max_mw);
  made.max_pd = count(attributes.max_pd);
  made.max_ah = count(attributes.max_ah);
  made.max_qp_rd_atom = count(attributes.max_qp_rd_atomic);
  made.max_qp_init_rd_atom = count(attributes.max_qp_init_rd_atomic);
  made.max_res_rd_atom = count(attributes.max_qp_rd_atomic);
  made.max_srq = count(attributes.max_srq);
  made.max_srq_wr = count(attributes.max_srq_wr);
  made.max_srq_sge = count(attributes.max_srq_sge);
  made.max_wq_type_rq = attributes.max_wq;
  made.max_fast_reg_page_list_len = attributes.max_fast_registration_entries;
  made.max_pi_fast_reg_page_list_len = attributes.max_integrity_entries;
  made.max_map_per_fmr = count(attributes.max_maps_per_fmr);
  made.max_mcast_grp = count(attributes.max_multicast_groups);
  made.max_mcast_qp_attach = count(attributes.max_multicast_qp_attach);
  made.max_pkeys = static_cast<std::uint16_t>(attributes.max_pkeys);
  made.local_ca_ack_delay = attributes.local_ca_ack_delay;
  made.atomic_cap = IB_ATOMIC_HCA;
  return made;
}

ib_port_attr to_c(const core::PortDescription& port) {
  ib_port_attr made{};
  made.subnet_prefix = port.subnet_prefix;
  made.state = same_number<ib_port_state>(port.state);
  made.max_mtu = same_number<ib_mtu>(port.max_mtu);
  made.active_mtu = same_number<ib_mtu>(port.active_mtu);
  made.phys_mtu = verbs::bytes(port.active_mtu);
  made.gid_tbl_len = count(port.gid_table_length);
  made.ip_gids = port.has_ip_gids ? 1 : 0;
  made.port_cap_flags = port.capability_mask;
  made.port_cap_flags2 = port.capability_mask_2;
  made.max_msg_sz = port.max_message_size;
  made.bad_pkey_cntr = port.bad_pkeys;
  made.qkey_viol_cntr = port.bad_qkeys;
  made.pkey_tbl_len = static_cast<std::uint16_t>(port.pkey_table_length);
  made.lid = port.lid.value();
  made.sm_lid = port.sm_lid.value();
  made.lmc = port.lmc;
  made.max_vl_num = port.max_vl;
  made.sm_sl = port.sm_sl.value();
  made.subnet_timeout = port.subnet_timeout;
  made.init_type_reply = port.init_type_reply;
  made.active_width = port.active_width;
  made.active_speed = port.active_speed;
  made.phys_state = port.physical_state;
  return made;
}

ib_wc to_c(const core::Wc& wc, ib_qp* qp) {
  ib_wc made{};
  made.wr_id = wc.wr_id;
  made.status = same_number<ib_wc_status>(wc.status);
  made.opcode = same_number<ib_wc_opcode>(wc.opcode);
  made.vendor_err = wc.vendor_error;
  made.byte_len = wc.byte_length;
  made.qp = qp;
  if (wc.flags.has(verbs::Completion::WithImmediate)) {
    made.wc_flags |= IB_WC_WITH_IMM;
    made.ex.imm_data = static_cast<std::uint32_t>(big_endian(wc.immediate) >> 32);
  } else if (wc.flags.has(verbs::Completion::WithInvalidate)) {
    made.wc_flags |= IB_WC_WITH_INVALIDATE;
    made.ex.invalidate_rkey = wc.invalidated_rkey.value();
  }
  if (wc.flags.has(verbs::Completion::Grh)) {
    made.wc_flags |= IB_WC_GRH;
  }
  made.src_qp = wc.src_qpn.value();
  made.slid = wc.slid.value();
  made.pkey_index = wc.pkey_index;
  made.sl = wc.sl.value();
  made.dlid_path_bits = wc.dlid_path_bits;
  made.port_num = wc.port.value();
  return made;
}

}  // namespace weft::kernel
