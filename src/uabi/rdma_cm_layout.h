#pragma once

// Field order of the RDMA-CM messages, for the archives in messages.cc. Included by messages.cc
// only.

#include "uabi/rdma_cm_messages.h"

namespace weft::uabi {

void describe(RdmaCmAddress& m, auto& archive) {
  archive(m.family, m.octets, m.port, m.flow_info, m.scope, m.pkey, m.service_id, m.service_mask);
}
void describe(RdmaCmService& m, auto& archive) { archive(m.service_id, m.gid, m.pkey); }

/// What messages hold as one member.
template <class T>
inline constexpr bool kIsRdmaCmPart = false;
template <>
inline constexpr bool kIsRdmaCmPart<RdmaCmAddress> = true;
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
void describe(ConnectRdmaCm& m, auto& archive) { archive(m.id, m.parameters); }
void describe(AcceptRdmaCm& m, auto& archive) {
  archive(m.id, m.uid, m.has_parameters, m.parameters);
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
void describe(RdmaCmQpAttributes& m, auto& archive) { archive(m.modification); }
void describe(RdmaCmServices& m, auto& archive) { archive(m.services); }
void describe(RdmaCmEvent& m, auto& archive) {
  archive(m.type, m.uid, m.id, m.status, m.argument, m.parameters, m.address_vector);
}
void describe(NoRdmaCmEvent&, auto&) {}

}  // namespace weft::uabi
