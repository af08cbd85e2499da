#pragma once

// Field order of the nouns of src/verbs in control messages, for the archives in messages.cc.
// Included by messages.cc only. These functions are in the nouns' namespace, where
// argument-dependent lookup finds them.

#include "uabi/rdma_cm_messages.h"

namespace weft::verbs {

void describe(Ece& m, auto& archive) { archive(m.vendor_id, m.options); }
void describe(ConnectionParameters& m, auto& archive) {
  archive(m.qpn, m.qkey, m.has_srq, m.responder_resources, m.initiator_depth, m.flow_control,
          m.retry_count, m.rnr_retry_count, m.private_data, m.ece);
}
void describe(GlobalRoute& m, auto& archive) {
  archive(m.dgid, m.flow_label, m.sgid_index, m.hop_limit, m.traffic_class);
}
void describe(AddressVector& m, auto& archive) {
  archive(m.dlid, m.sl, m.source_path_bits, m.static_rate, m.port, m.is_global, m.grh);
}
void describe(Path& m, auto& archive) {
  archive(m.dgid, m.sgid, m.dlid, m.slid, m.flow_label, m.hop_limit, m.traffic_class,
          m.is_reversible, m.pkey, m.sl, m.mtu, m.rate, m.packet_life_time);
}
void describe(QpCapabilities& m, auto& archive) {
  archive(m.max_send_wr, m.max_recv_wr, m.max_send_sge, m.max_recv_sge, m.max_inline_data);
}
void describe(QpAttributes& m, auto& archive) {
  archive(m.state, m.current_state, m.path_mtu, m.migration, m.qkey, m.rq_psn, m.sq_psn, m.dest_qpn,
          m.access, m.capabilities, m.address, m.alternate_address, m.pkey_index,
          m.alternate_pkey_index, m.enable_sqd_async_notify, m.sq_draining, m.max_rd_atomic,
          m.max_dest_rd_atomic, m.min_rnr_timer, m.port, m.timeout, m.retry_count, m.rnr_retry,
          m.alternate_port, m.alternate_timeout);
}
void describe(QpModification& m, auto& archive) { archive(m.mask, m.attributes); }

/// Values that a noun can hold and its fields in packets cannot: whoever sends one is at fault.
[[nodiscard]] inline bool is_in_range(const ConnectionParameters& parameters) {
  return parameters.private_data.size() <= uabi::kMaxRdmaCmPrivateData;
}
[[nodiscard]] inline bool is_in_range(const Path& path) {
  constexpr std::uint32_t kLastLid = 0xFFFF;
  constexpr std::uint32_t kLastFlowLabel = 0xF'FFFF;
  constexpr std::uint8_t kLastCode = 0x3F;  // of rate and packet lifetime
  constexpr std::uint8_t kLastServiceLevel = 15;
  return path.slid.value() <= kLastLid && path.dlid.value() <= kLastLid &&
         path.flow_label <= kLastFlowLabel && path.sl.value() <= kLastServiceLevel &&
         path.rate <= kLastCode && path.packet_life_time <= kLastCode;
}

}  // namespace weft::verbs
