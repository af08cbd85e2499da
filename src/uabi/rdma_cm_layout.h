#pragma once

// Field order of the RDMA-CM messages, for the archives in messages.cc. Included by messages.cc
// only.

#include "uabi/rdma_cm_messages.h"

namespace weft::uabi {

void describe(RdmaCmAddress& m, auto& archive) {
  archive(m.family, m.octets, m.port, m.flow_info, m.scope, m.pkey, m.service_id, m.service_mask);
}
void describe(RdmaCmEce& m, auto& archive) { archive(m.vendor_id, m.options); }
void describe(RdmaCmParameters& m, auto& archive) {
  archive(m.qpn, m.qkey, m.has_srq, m.responder_resources, m.initiator_depth, m.flow_control,
          m.retry_count, m.rnr_retry_count, m.private_data);
}
void describe(RdmaCmAddressVector& m, auto& archive) {
  archive(m.dlid, m.sl, m.source_path_bits, m.static_rate, m.port, m.is_global, m.dgid,
          m.flow_label, m.sgid_index, m.hop_limit, m.traffic_class);
}
void describe(RdmaCmPath& m, auto& archive) {
  archive(m.flags, m.dgid, m.sgid, m.dlid, m.slid, m.service_id, m.flow_label, m.hop_limit,
          m.traffic_class, m.is_reversible, m.pkey, m.qos_class, m.sl, m.mtu, m.rate,
          m.packet_life_time);
}

void describe(RdmaCmService& m, auto& archive) { archive(m.service_id, m.gid, m.pkey); }

/// What messages hold as one member.
template <class T>
inline constexpr bool kIsRdmaCmPart = false;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmAddress> = true;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmEce> = true;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmParameters> = true;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmAddressVector> = true;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmPath> = true;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmService> = true;

void describe(OpenRdmaCm& m, auto& archive) { archive(m.version, m.host, m.loopback); }
void describe(CreateRdmaCmId& m, auto& archive) { archive(m.port_space, m.qp_type, m.uid); }
void describe(DestroyRdmaCmId& m, auto& archive) { archive(m.id); }
void describe(BindRdmaCmId& m, auto& archive) { archive(m.id, m.address); }
void describe(ResolveRdmaCmAddress& m, auto& archive) {
  archive(m.id, m.source, m.destination, m.timeout_ms);
}
void describe(ResolveRdmaCmRoute& m, auto& archive) { archive(m.id, m.timeout_ms); }
void describe(QueryRdmaCmId& m, auto& archive) { archive(m.id); }
void describe(ListenRdmaCm& m, auto& archive) { archive(m.id, m.backlog); }
void describe(ConnectRdmaCm& m, auto& archive) { archive(m.id, m.parameters, m.ece); }
void describe(AcceptRdmaCm& m, auto& archive) {
  archive(m.id, m.uid, m.has_parameters, m.parameters, m.ece);
}
void describe(RejectRdmaCm& m, auto& archive) { archive(m.id, m.reason, m.private_data); }
void describe(DisconnectRdmaCm& m, auto& archive) { archive(m.id); }
void describe(InitRdmaCmQp& m, auto& archive) { archive(m.id, m.state); }
void describe(SetRdmaCmOption& m, auto& archive) { archive(m.id, m.option, m.value); }
void describe(SetRdmaCmPaths& m, auto& archive) { archive(m.id, m.paths); }
void describe(NotifyRdmaCm& m, auto& archive) { archive(m.id, m.event); }
void describe(JoinRdmaCmGroup& m, auto& archive) {
  archive(m.id, m.uid, m.is_send_only, m.address);
}
void describe(LeaveRdmaCmGroup& m, auto& archive) { archive(m.membership); }
void describe(MigrateRdmaCmId& m, auto& archive) { archive(m.from, m.id); }
void describe(GetRdmaCmEvent&, auto&) {}
void describe(ResolveRdmaCmService& m, auto& archive) { archive(m.id, m.service_id, m.name); }
void describe(QueryRdmaCmServices& m, auto& archive) { archive(m.id); }
void describe(WriteRdmaCmEvent& m, auto& archive) {
  archive(m.id, m.uid, m.type, m.status, m.argument);
}
void describe(CommunicationEstablished& m, auto& archive) { archive(m.qpn); }

void describe(RdmaCmOpened& m, auto& archive) { archive(m.channel); }
void describe(RdmaCmAnswer& m, auto& archive) { archive(m.error, m.value, m.reason); }
void describe(RdmaCmIdState& m, auto& archive) {
  archive(m.device, m.port, m.pkey, m.source, m.destination, m.sgid, m.dgid, m.paths);
}
void describe(RdmaCmQpAttributes& m, auto& archive) {
  archive(m.mask, m.state, m.path_mtu, m.path_mig_state, m.qkey, m.rq_psn, m.sq_psn, m.destination,
          m.access_flags, m.path, m.alternate_path, m.pkey_index, m.alternate_pkey_index, m.port,
          m.alternate_port, m.max_rd_atomic, m.max_dest_rd_atomic, m.min_rnr_timer, m.timeout,
          m.alternate_timeout, m.retry_count, m.rnr_retry);
}
void describe(RdmaCmServices& m, auto& archive) { archive(m.services); }
void describe(RdmaCmEvent& m, auto& archive) {
  archive(m.type, m.uid, m.id, m.status, m.argument, m.parameters, m.address_vector, m.ece);
}
void describe(NoRdmaCmEvent&, auto&) {}

}  // namespace weft::uabi
