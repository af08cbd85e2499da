#include "verbs_driver/translation.h"

#include <endian.h>

#include <algorithm>
#include <array>
#include <bit>

namespace weft::verbs_driver {
namespace {

/// The enumerator of libibverbs with the same number.
template <class Theirs, class Ours>
[[nodiscard]] Theirs same_number(Ours value) {
  return static_cast<Theirs>(value);
}

[[nodiscard]] std::uint32_t count_of(int number) {
  return static_cast<std::uint32_t>(std::max(number, 0));
}

}  // namespace

Gid gid_of(const ibv_gid& gid) {
  return Gid{std::bit_cast<std::array<std::byte, Gid::kSize>>(gid.raw)};
}

ibv_gid to_ibv(const Gid& gid) {
  ibv_gid made{};
  std::ranges::transform(gid.octets(), made.raw,
                         [](std::byte octet) { return std::to_integer<std::uint8_t>(octet); });
  return made;
}

verbs::AddressVector address_of(const ibv_ah_attr& attributes) {
  return {
      .dlid = Lid{attributes.dlid},
      .sl = ServiceLevel{attributes.sl},
      .source_path_bits = attributes.src_path_bits,
      .static_rate = attributes.static_rate,
      .port = PortNumber{attributes.port_num},
      .is_global = attributes.is_global != 0,
      .grh = {.dgid = gid_of(attributes.grh.dgid),
                  .flow_label = attributes.grh.flow_label,
                  .sgid_index = attributes.grh.sgid_index,
                  .hop_limit = attributes.grh.hop_limit,
                  .traffic_class = attributes.grh.traffic_class}
  };
}

ibv_ah_attr to_ibv(const verbs::AddressVector& address) {
  ibv_ah_attr made{};
  made.dlid = static_cast<std::uint16_t>(address.dlid.value());
  made.sl = address.sl.value();
  made.src_path_bits = address.source_path_bits;
  made.static_rate = address.static_rate;
  made.port_num = address.port.value();
  made.is_global = address.is_global ? 1 : 0;
  made.grh.dgid = to_ibv(address.grh.dgid);
  made.grh.flow_label = address.grh.flow_label;
  made.grh.sgid_index = address.grh.sgid_index;
  made.grh.hop_limit = address.grh.hop_limit;
  made.grh.traffic_class = address.grh.traffic_class;
  return made;
}

verbs::QpCapabilities capabilities_of(const ibv_qp_cap& capabilities) {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_recv_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_recv_sge,
          .max_inline_data = capabilities.max_inline_data};
}

ibv_qp_cap to_ibv(const verbs::QpCapabilities& capabilities) {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_recv_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_recv_sge,
          .max_inline_data = capabilities.max_inline_data};
}

verbs::QpAttributes attributes_of(const ibv_qp_attr& attributes) {
  verbs::QpAttributes made;
  made.state = verbs::qp_state_of(attributes.qp_state).value_or(verbs::QpState::Err);
  made.current_state = verbs::qp_state_of(attributes.cur_qp_state).value_or(verbs::QpState::Err);
  made.path_mtu = verbs::mtu_of(attributes.path_mtu).value_or(verbs::Mtu::Mtu256);
  made.migration = verbs::migration_state_of(attributes.path_mig_state)
                       .value_or(verbs::MigrationState::Migrated);
  made.qkey = QKey{attributes.qkey};
  made.rq_psn = Psn{attributes.rq_psn};
  made.sq_psn = Psn{attributes.sq_psn};
  made.dest_qpn = Qpn{attributes.dest_qp_num};
  made.access = verbs::AccessFlags::from_bits(attributes.qp_access_flags);
  made.capabilities = capabilities_of(attributes.cap);
  made.address = address_of(attributes.ah_attr);
  made.alternate_address = address_of(attributes.alt_ah_attr);
  made.pkey_index = attributes.pkey_index;
  made.alternate_pkey_index = attributes.alt_pkey_index;
  made.enable_sqd_async_notify = attributes.en_sqd_async_notify != 0;
  made.sq_draining = attributes.sq_draining != 0;
  made.max_rd_atomic = attributes.max_rd_atomic;
  made.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  made.min_rnr_timer = attributes.min_rnr_timer;
  made.port = PortNumber{attributes.port_num};
  made.timeout = TimeoutExponent{static_cast<std::uint8_t>(attributes.timeout & 0x1F)};
  made.retry_count = attributes.retry_cnt;
  made.rnr_retry = attributes.rnr_retry;
  made.alternate_port = PortNumber{attributes.alt_port_num};
  made.alternate_timeout =
      TimeoutExponent{static_cast<std::uint8_t>(attributes.alt_timeout & 0x1F)};
  return made;
}

ibv_qp_attr to_ibv(const verbs::QpAttributes& attributes) {
  ibv_qp_attr made{};
  made.qp_state = same_number<ibv_qp_state>(attributes.state);
  made.cur_qp_state = same_number<ibv_qp_state>(attributes.current_state);
  made.path_mtu = same_number<ibv_mtu>(attributes.path_mtu);
  made.path_mig_state = same_number<ibv_mig_state>(attributes.migration);
  made.qkey = attributes.qkey.value();
  made.rq_psn = attributes.rq_psn.value();
  made.sq_psn = attributes.sq_psn.value();
  made.dest_qp_num = attributes.dest_qpn.value();
  made.qp_access_flags = attributes.access.bits();
  made.cap = to_ibv(attributes.capabilities);
  made.ah_attr = to_ibv(attributes.address);
  made.alt_ah_attr = to_ibv(attributes.alternate_address);
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

core::Wc completion_of(const ibv_wc& wc) {
  core::Wc made;
  made.wr_id = wc.wr_id;
  // Later ones are of tag matching, which nobody here asks for.
  made.status = wc.status <= IBV_WC_GENERAL_ERR ? static_cast<verbs::WcStatus>(wc.status)
                                                : verbs::WcStatus::GeneralError;
  made.opcode = static_cast<verbs::WcOpcode>(wc.opcode);
  made.flags = verbs::CompletionFlags::from_bits(wc.wc_flags);
  made.vendor_error = wc.vendor_err;
  made.byte_length = wc.byte_len;
  if (made.flags.has(verbs::Completion::WithInvalidate)) {
    made.invalidated_rkey = RKey{wc.invalidated_rkey};
  } else {
    made.immediate = be32toh(wc.imm_data);
  }
  made.qpn = Qpn{wc.qp_num};
  made.src_qpn = Qpn{wc.src_qp};
  made.pkey_index = wc.pkey_index;
  made.slid = Lid{wc.slid};
  made.sl = ServiceLevel{wc.sl};
  made.dlid_path_bits = wc.dlid_path_bits;
  return made;
}

core::DeviceAttributes attributes_of(const ibv_device_attr& attributes, bool has_on_demand_paging) {
  using enum core::DeviceCapability;
  constexpr auto kPassedOn = core::DeviceCapabilities{BadPKeyCounter} | BadQKeyCounter |
                             AutoPathMigration | ChangePhysicalPort | CurrentQpStateModify |
                             PortActiveEvent | SystemImageGuid | RcRnrNakGeneration;
  core::DeviceAttributes made;
  made.system_image_guid = Guid{be64toh(attributes.sys_image_guid)};
  made.node_guid = Guid{be64toh(attributes.node_guid)};
  made.max_mr_size = attributes.max_mr_size;
  made.page_size_mask = attributes.page_size_cap;
  made.vendor_id = attributes.vendor_id;
  made.vendor_part_id = attributes.vendor_part_id;
  made.hardware_version = attributes.hw_ver;
  made.capabilities = core::DeviceCapabilities::from_bits(attributes.device_cap_flags) & kPassedOn;
  if (has_on_demand_paging) {
    made.capabilities |= OnDemandPaging;
  }
  made.max_qp = count_of(attributes.max_qp);
  made.max_qp_wr = count_of(attributes.max_qp_wr);
  made.max_send_sge = count_of(attributes.max_sge);
  made.max_recv_sge = count_of(attributes.max_sge);
  made.max_sge_read = count_of(attributes.max_sge_rd);
  made.max_cq = count_of(attributes.max_cq);
  made.max_cqe = count_of(attributes.max_cqe);
  made.max_mr = count_of(attributes.max_mr);
  made.max_pd = count_of(attributes.max_pd);
  made.max_ah = count_of(attributes.max_ah);
  made.max_qp_rd_atomic = count_of(attributes.max_qp_rd_atom);
  made.max_qp_init_rd_atomic = count_of(attributes.max_qp_init_rd_atom);
  made.max_srq = count_of(attributes.max_srq);
  made.max_srq_wr = count_of(attributes.max_srq_wr);
  made.max_srq_sge = count_of(attributes.max_srq_sge);
  made.max_multicast_groups = count_of(attributes.max_mcast_grp);
  made.max_multicast_qp_attach = count_of(attributes.max_mcast_qp_attach);
  made.max_pkeys = attributes.max_pkeys;
  made.local_ca_ack_delay = attributes.local_ca_ack_delay;
  return made;
}

core::PortDescription port_of(const ibv_port_attr& attributes, std::uint64_t subnet_prefix) {
  return {
      .state = verbs::port_state_of(attributes.state).value_or(verbs::PortState::Down),
      .physical_state = attributes.phys_state,
      .max_mtu = verbs::mtu_of(attributes.max_mtu).value_or(verbs::Mtu::Mtu256),
      .active_mtu = verbs::mtu_of(attributes.active_mtu).value_or(verbs::Mtu::Mtu256),
      .gid_table_length = count_of(attributes.gid_tbl_len),
      .has_ip_gids = attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
      .capability_mask = attributes.port_cap_flags,
      .capability_mask_2 = attributes.port_cap_flags2,
      .max_message_size = attributes.max_msg_sz,
      .bad_pkeys = attributes.bad_pkey_cntr,
      .bad_qkeys = attributes.qkey_viol_cntr,
      .pkey_table_length = attributes.pkey_tbl_len,
      .lid = Lid{attributes.lid},
      .sm_lid = Lid{attributes.sm_lid},
      .lmc = attributes.lmc,
      .max_vl = attributes.max_vl_num,
      .sm_sl = ServiceLevel{attributes.sm_sl},
      .subnet_timeout = attributes.subnet_timeout,
      .init_type_reply = attributes.init_type_reply,
      .active_width = attributes.active_width,
      .active_speed = attributes.active_speed,
      .subnet_prefix = subnet_prefix,
  };
}

}  // namespace weft::verbs_driver
